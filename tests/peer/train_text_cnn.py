#!/usr/bin/env python3
"""Trains the network of the recipes sst2 and trec in PyTorch on the same files: the same words, padding, sizes, optimizer and schedule,
but other random numbers. Prints the share of the evaluated sentences that each seed has right.

    python3 tests/peer/train_text_cnn.py TRAIN.txt TEST.txt --context 56 --seeds 5

Needs torch.
"""
import argparse
import collections
import math
import time

import torch
from torch import nn
from torch.nn import functional as F


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return [(line.split()[0], line.split()[1:]) for line in file if line.strip()]


class TextCnn(nn.Module):
    def __init__(self, words, classes, width, filters):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)
        self.convs = nn.ModuleList(nn.Conv1d(width, filters, k) for k in (3, 4, 5))
        for conv in self.convs:
            nn.init.zeros_(conv.bias)
        self.fc = nn.Linear(3 * filters, classes)
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        x = torch.cat([F.relu(conv(x)).amax(2) for conv in self.convs], 1)
        return self.fc(F.dropout(x, 0.5, self.training))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--context", type=int, default=56)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    train, test = read(options.train), read(options.test)
    counts = collections.Counter(word for _, words in train for word in words)
    number = {word: i + 2 for i, (word, _) in enumerate(counts.most_common())}  # 0 ends a sentence, 1 is any other word
    labels = {label: i for i, label in enumerate(sorted({label for label, _ in train}))}

    def tensors(rows):
        tokens = torch.zeros(len(rows), options.context, dtype=torch.long)
        for i, (_, words) in enumerate(rows):
            tokens[i, : len(words)] = torch.tensor([number.get(word, 1) for word in words])
        return tokens, torch.tensor([labels[label] for label, _ in rows])

    x, y = tensors(train)
    test_x, test_y = tensors(test)
    steps = len(train) // options.batch
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        model = TextCnn(len(number) + 2, len(labels), 300, 100)
        weights = [p for name, p in model.named_parameters() if name.endswith("weight") and "embedding" not in name]
        others = [p for p in model.parameters() if all(p is not w for w in weights)]
        optimizer = torch.optim.AdamW(
            [{"params": weights, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}], lr=1e-3
        )
        total, start = options.epochs * steps, time.time()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / total)))
        for _ in range(options.epochs):
            model.train()
            order = torch.randperm(len(train))
            for rows in order[: steps * options.batch].view(steps, options.batch):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                schedule.step()
        seconds = time.time() - start
        model.eval()
        with torch.no_grad():
            right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(test_x.split(256), test_y.split(256)))
        print(
            f"seed {seed}: {right / len(test):.2%} ({right} of {len(test)}), {total * options.batch / seconds:.0f} sentences/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
