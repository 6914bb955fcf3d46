#!/usr/bin/env python3
"""Draws a few pictures, and has check_inspect.py recompute the first steps of imagenette-resnet18 on them with PyTorch in
double precision, with the last norm of each block zero at first, as the recipe has it, and without:

    python3 tests/peer/check_step.py build/podium [OVERRIDE...]

The plain network needs to be told on which side of its corner each activation fell. Its logits have an error of 1e-4 (Winograd in
FP32, 18 layers), which moves 5 of a million activations, some fifteen, across. In the last layers a replica has 8 images
of 2 x 2 pixels and 512 channels, so that one of them is a percent of a gradient, in root mean square: without the same
branches the gradients of either step differ from PyTorch's by 1 to 4%, and with them by at most 1.3e-4.

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
        check, failed = os.path.join(os.path.dirname(__file__), "check_inspect.py"), 0
        for model in ("resnet18-zero", "resnet18"):
            for step in ("1", "2"):
                inspected = os.path.join(folder, f"{model}-{step}.safetensors")
                subprocess.run([podium, "inspect", "imagenette-resnet18", f"data.path={folder}/photos", "data.size=64", "batch=16",
                                f"model={model}", *sys.argv[2:], "--step", step, "--activations", "--out", inspected], check=True)
                # The largest error is of single weights whose gradients are far above their tensor's mean.
                limits = ["--limit", "4e-3", "--mean-limit", "3e-4"]
                failed |= subprocess.run([sys.executable, check, inspected, *limits]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
