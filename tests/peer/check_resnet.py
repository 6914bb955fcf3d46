#!/usr/bin/env python3
"""Gives torchvision's ResNet random weights and running statistics, starts a run of Podium from them (--init), and
compares the logits of `podium predict` with torchvision's own:

    python3 tests/peer/check_resnet.py build/podium                        # resnet50 on test images of CIFAR-10
    python3 tests/peer/check_resnet.py build/podium --model resnet18

Needs torch, torchvision, safetensors and Pillow; exits 77 where they are missing, so that ctest calls the test skipped.
Exits 1 where a logit differs by more than --limit.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Nothing moves: all but one bias is frozen, and that has no learning rate.
RECIPE = """description = "logits of a network that is given"
model = "{model}"
data = "cifar10"
batch = 2
validation = 16
steps = 1

[optimizer]
name = "sgd"
learning_rate = 0

[[optimizer.group]]
parameters = ["fc.bias"]

[[optimizer.group]]
parameters = ["*"]
frozen = true
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("podium")
    parser.add_argument("--model", default="resnet50", choices=["resnet18", "resnet34", "resnet50"])
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--limit", type=float, default=1e-4)
    args = parser.parse_args()
    podium = os.path.abspath(args.podium)

    torch.manual_seed(1)
    network = getattr(torchvision.models, args.model)(num_classes=10).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1)
            torch.nn.init.uniform_(module.bias, -0.2, 0.2)
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    torch.nn.init.uniform_(network.fc.bias, -1, 1)

    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        save_file({name: value.contiguous() for name, value in network.state_dict().items()}, path("weights.safetensors"))
        with open(path("given.toml"), "w") as file:
            file.write(RECIPE.format(model=args.model))
        generator = torch.Generator().manual_seed(2)
        pixels = torch.randint(0, 256, (args.images, 32, 32, 3), generator=generator, dtype=torch.uint8)
        names = [path(f"{i}.png") for i in range(args.images)]
        for name, image in zip(names, pixels):
            Image.fromarray(image.numpy()).save(name)
        subprocess.run([podium, "train", path("given.toml"), "--init", path("weights.safetensors"), "--out", path("run"), "--quiet"],
                       check=True)
        told = subprocess.run([podium, "predict", path("run"), *names, "--json"], check=True, capture_output=True, text=True)
    found = torch.tensor([image["logits"] for image in json.loads(told.stdout)], dtype=torch.float64)
    with torch.no_grad():
        expected = network.double()(pixels.permute(0, 3, 1, 2).double() / 255)
    error = (found - expected).abs().max().item()
    print(f"{args.model}: {args.images} images, logits up to {expected.abs().max().item():.3g}, largest difference {error:.2g}")
    return 0 if error <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())
