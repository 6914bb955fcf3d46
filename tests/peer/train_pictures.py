#!/usr/bin/env python3
"""Trains a ResNet on a folder of pictures with PyTorch as a run of Podium's did, by the run's resolved recipe:

    podium train imagenette-resnet18 data.path=PHOTOS --out runs/a
    python3 tests/peer/train_pictures.py runs/a/recipe.toml PHOTOS --seed 3

Network, shares of the batch that are normalised together, running statistics averaged over them, schedule, decay, label
smoothing and the distribution of initial values and crops are those of the recipe; the draws are PyTorch's own. PHOTOS has the folders train
and val. Prints a line of JSON per epoch and one for the run. Needs torch, torchvision, Pillow and Python 3.11.
"""
import argparse
import json
import math
import os
import time
import tomllib

import torch
import torch.nn.functional as F
import torchvision
from PIL import Image
from torchvision.transforms import RandomResizedCrop, functional


class Pictures:
    """The pictures of a part, opened once and kept as pixels, at each of the sizes at which they are decoded."""

    def __init__(self, folder, recipe):
        self.files, self.labels, self.kept = [], [], {}
        for label, name in enumerate(sorted(os.listdir(folder))):
            for file in sorted(os.listdir(os.path.join(folder, name))):
                self.files.append(os.path.join(folder, name, file))
                self.labels.append(label)
        self.size = recipe["data"]["size"]
        self.resize = recipe["data"]["resize"] or self.size * 8 // 7
        self.augment, normalise = recipe["augment"], recipe["normalise"]
        self.mean, self.deviation = (torch.tensor(normalise[key]).view(3, 1, 1) for key in ("mean", "deviation"))

    def pixels(self, index, part):
        """The picture decoded at 1/part of its size, as libjpeg does, and its full size."""
        if (index, part) not in self.kept:
            picture = Image.open(self.files[index])
            full = picture.size
            if part > 1:
                picture.draft("RGB", (full[0] // part, full[1] // part))
                assert picture.size == tuple(-(-side // part) for side in full), picture.size
            self.kept[index, part] = picture.convert("RGB"), full
        return self.kept[index, part]

    def normalised(self, picture):
        return (functional.to_tensor(picture) - self.mean) / self.deviation

    def drawn(self, index):
        width, height = self.pixels(index, 1)[1]
        blank = torch.empty(1).expand(3, height, width)
        top, left, h, w = RandomResizedCrop.get_params(blank, self.augment["crop_area"], self.augment["crop_ratio"])
        part = next((part for part in (8, 4, 2) if min(h, w) >= part * self.size), 1)
        box = [side / part for side in (left, top, left + w, top + h)]
        picture = self.pixels(index, part)[0].resize((self.size, self.size), Image.BILINEAR, box=box)
        if self.augment["flip"] == "random" and torch.rand(()) < 0.5:
            picture = functional.hflip(picture)
        return self.normalised(picture)

    def centre(self, index):
        picture = functional.resize(self.pixels(index, 1)[0], self.resize)
        return self.normalised(functional.center_crop(picture, self.size))


def require(recipe, key, *values):
    value = recipe
    for name in key.split("."):
        value = value[name]
    if value not in values:
        raise SystemExit(f"{key} = {value}: this program knows {values}")


def network_of(recipe, classes):
    name = recipe["model"].removesuffix("-zero")
    network = getattr(torchvision.models, name)(num_classes=classes, zero_init_residual=recipe["model"].endswith("-zero"))
    return network.to(memory_format=torch.channels_last)


def rate_at(recipe, step, per_epoch, total):
    rate, schedule = recipe["optimizer"]["learning_rate"], recipe["schedule"]
    warmup = schedule["warmup"] * (per_epoch if schedule["unit"] == "epoch" else 1)
    gone = max(0.0, step - warmup) / (total - warmup)
    rate = schedule["floor"] + (rate - schedule["floor"]) * (1 + math.cos(math.pi * gone)) / 2
    return rate * min(1.0, (step + 1) / warmup) if warmup else rate


@torch.no_grad()
def accuracy(network, pictures):
    network.eval()
    right = 0
    for rows in torch.arange(len(pictures.files)).split(120):
        logits = network(torch.stack([pictures.centre(i) for i in rows.tolist()]))
        right += int((logits.argmax(1) == torch.tensor(pictures.labels)[rows]).sum())
    network.train()
    return right / len(pictures.files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("photos")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="stop after so many")
    args = parser.parse_args()
    with open(args.recipe, "rb") as file:
        recipe = tomllib.load(file)
    require(recipe, "optimizer.name", "sgd")
    require(recipe, "optimizer.decay_all", False)
    require(recipe, "optimizer.decay", "once")
    require(recipe, "schedule.name", "cosine")
    require(recipe, "augment.crop", "random-resized")
    for key in ("augment.shift", "augment.cutout", "augment.brightness", "augment.contrast", "augment.saturation", "augment.hue"):
        require(recipe, key, 0)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    train, held = (Pictures(os.path.join(args.photos, part), recipe) for part in ("train", "val"))
    network = network_of(recipe, len(set(train.labels))).train()
    own = recipe["optimizer"]
    groups = [{"params": [p for p in network.parameters() if (p.dim() > 1) == decays],
               "weight_decay": own["weight_decay"] if decays else 0} for decays in (True, False)]
    optimizer = torch.optim.SGD(groups, lr=own["learning_rate"], momentum=own["momentum"], nesterov=own["nesterov"])
    batch, replicas = recipe["batch"], recipe["replicas"]
    per_epoch = len(train.files) // batch
    total = recipe.get("steps") or recipe["epochs"] * per_epoch
    running = [value for name, value in network.named_buffers() if "running" in name]
    labels, step, begin = torch.tensor(train.labels), 0, time.perf_counter()
    while step < min(total, args.steps or total):
        losses, order = [], torch.randperm(len(train.files))
        for rows in order[: per_epoch * batch].split(batch):
            optimizer.zero_grad(set_to_none=True)
            old, sums = [value.clone() for value in running], [torch.zeros_like(value) for value in running]
            for share in rows.chunk(replicas):
                for value, before in zip(running, old):
                    value.copy_(before)
                inputs = torch.stack([train.drawn(i) for i in share.tolist()]).contiguous(memory_format=torch.channels_last)
                loss = F.cross_entropy(network(inputs), labels[share], label_smoothing=recipe["label_smoothing"]) / replicas
                loss.backward()
                losses.append(loss.item())
                for value, total_value in zip(running, sums):
                    total_value.add_(value)
            for value, total_value in zip(running, sums):
                value.copy_(total_value / replicas)
            for group in optimizer.param_groups:
                group["lr"] = rate_at(recipe, step, per_epoch, total)
            optimizer.step()
            step += 1
            if step == min(total, args.steps or total):
                break
        seconds = time.perf_counter() - begin
        line = {"epoch": -(-step // per_epoch), "step": step, "loss": round(sum(losses) * replicas / len(losses), 4),
                "train_s": round(seconds, 1)}
        print(json.dumps(line), flush=True)
    print(json.dumps({"recipe": recipe["name"], "framework": f"torch {torch.__version__}", "seed": args.seed, "steps": step,
                      "of": total, "accuracy": round(accuracy(network, held), 5), "train_s": round(seconds, 1),
                      "images_per_s": round(step * batch / seconds, 1)}))


if __name__ == "__main__":
    main()
