#!/usr/bin/env python3
"""Draws a few pictures, and has check_inspect.py recompute the first steps of imagenette-resnet18 on them with PyTorch in
double precision:

    python3 tests/peer/check_step.py build/podium [OVERRIDE...]

Needs torch, torchvision, safetensors and Pillow; exits 77 where they are missing, so that ctest calls the test skipped.
"""
import os
import subprocess
import sys
import tempfile

try:
    import safetensors  # noqa: F401
    import torch
    import torchvision  # noqa: F401
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def draw(folder):
    """Noise of several scales: 12 pictures of each of three classes to train on, 2 to evaluate."""
    generator = torch.Generator().manual_seed(1)
    for part, count in (("train", 12), ("val", 2)):
        for label, scale in (("coarse", 4), ("fine", 32), ("middle", 12)):
            os.makedirs(os.path.join(folder, part, label))
            for i in range(count):
                pixels = torch.randint(0, 256, (scale, scale, 3), generator=generator, dtype=torch.uint8)
                picture = Image.fromarray(pixels.numpy()).resize((100 + 7 * i, 90), Image.BICUBIC)
                picture.save(os.path.join(folder, part, label, f"{i}.png"))


def main():
    podium = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        draw(os.path.join(folder, "photos"))
        # Weights of norms that begin with zero are small after a step, and put many inputs near the corners of ReLUs.
        for step, limit in (("1", "1e-3"), ("2", "0.02")):
            inspected = os.path.join(folder, f"{step}.safetensors")
            subprocess.run([podium, "inspect", "imagenette-resnet18", f"data.path={folder}/photos", "data.size=64", "batch=16",
                            *sys.argv[2:], "--step", step, "--out", inspected], check=True)
            check = os.path.join(os.path.dirname(__file__), "check_inspect.py")
            if subprocess.run([sys.executable, check, inspected, "--near-corner-limit", limit]).returncode != 0:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
