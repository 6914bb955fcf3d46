#!/usr/bin/env python3
"""Trains the network of the recipe spoken-digits in PyTorch on the same recordings: the same frames, sizes, optimizer and schedule, but
other random numbers. Prints the share of the evaluated recordings that each seed has right.

    python3 tests/peer/train_bilstm.py fsdd/recordings.tar.xz --seeds 5

Needs torch and numpy.
"""
import argparse
import io
import math
import re
import tarfile
import time
import wave

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

RATE, MELS, CONTEXT, FLOOR = 8000, 40, 104, 1e-6


def filters(bins):
    mel = lambda hertz: 1127 * math.log(1 + hertz / 700)
    edges = 700 * (np.exp(np.linspace(mel(20), mel(RATE / 2), MELS + 2) / 1127) - 1)
    at = np.arange(bins) * RATE / (2 * (bins - 1))
    up = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down))


def frames_of(samples):
    window, hop, size = RATE // 40, RATE // 100, 512
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    count = max(1, 1 + (len(samples) - window) // hop)
    samples = np.pad(samples, (0, max(0, window - len(samples))))
    cut = np.stack([hann * samples[i * hop : i * hop + window] for i in range(count)])
    power = np.abs(np.fft.rfft(cut, size)) ** 2
    return np.log(power @ filters(size // 2 + 1).T + FLOOR)


def read(path):
    recordings = []
    with tarfile.open(path) as archive:
        for member in archive:
            if not member.name.endswith(".wav"):
                continue
            with wave.open(io.BytesIO(archive.extractfile(member).read())) as file:
                samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
            label, take = re.search(r"(\d)_\w+?_(\d+)\.wav$", member.name).groups()
            recordings.append((int(label), int(take) < 5, frames_of(samples)))
    return recordings


class BiLstm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(MELS, width, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.fc = nn.Linear(2 * width, 10)

    def forward(self, x):
        return self.fc(F.dropout(self.lstm(x)[0], 0.3, self.training).amax(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("archive")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=96)
    options = parser.parse_args()

    recordings = read(options.archive)
    known = np.concatenate([frames for _, held_out, frames in recordings if not held_out])
    mean, deviation = known.mean(0), known.std(0)

    def tensors(part):
        x = np.full((len(part), CONTEXT, MELS), math.log(FLOOR))
        for row, (_, _, frames) in zip(x, part):
            row[: min(CONTEXT, len(frames))] = frames[:CONTEXT]
        return torch.tensor((x - mean) / deviation, dtype=torch.float32), torch.tensor([label for label, _, _ in part])

    x, y = tensors([one for one in recordings if not one[1]])
    test_x, test_y = tensors([one for one in recordings if one[1]])
    steps = len(y) // options.batch
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        model = BiLstm(options.width)
        weights = [p for name, p in model.named_parameters() if "weight" in name]
        others = [p for name, p in model.named_parameters() if "weight" not in name]
        optimizer = torch.optim.AdamW(
            [{"params": weights, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}], lr=2e-3
        )
        total, start = options.epochs * steps, time.time()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / total)))
        for _ in range(options.epochs):
            model.train()
            order = torch.randperm(len(y))
            for rows in order[: steps * options.batch].view(steps, options.batch):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                schedule.step()
        seconds = time.time() - start
        model.eval()
        with torch.no_grad():
            right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(test_x.split(100), test_y.split(100)))
        print(
            f"seed {seed}: {right / len(test_y):.2%} ({right} of {len(test_y)}), {total * options.batch / seconds:.0f} recordings/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
