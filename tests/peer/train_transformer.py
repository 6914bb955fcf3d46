#!/usr/bin/env python3
"""Trains the network of the recipe multi30k in PyTorch on the same pairs: the same tokens, buckets, sizes, optimizer and schedule, but
other random numbers. Prints the speed and the perplexity of each epoch and writes translations by beam search, for sacrebleu.

    python3 tests/peer/train_transformer.py multi30k multi30k/both.model --translations translations.de

Needs torch and sentencepiece.
"""
import argparse
import gzip
import math
import pathlib
import time

import sentencepiece
import torch
from torch import nn
from torch.nn import functional as F

END, CONTEXT, HEADS = 0, 40, 4


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory, mask=None, causal=False):
        def heads(t):
            return t.unflatten(-1, (HEADS, -1)).transpose(1, 2)

        y = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(memory)), heads(self.value(memory)), attn_mask=mask, is_causal=causal
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, hidden, dropout, crosses):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width)
        if crosses:
            self.ln_x, self.cross = nn.LayerNorm(width), Attention(width)
        self.ln_2, self.mlp = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask, memory=None):
        h = self.ln_1(x)
        x = x + self.drop(self.attn(h, h, causal=True) if memory is not None else self.attn(h, h, mask))
        if memory is not None:
            x = x + self.drop(self.cross(self.ln_x(x), memory, mask))
        return x + self.drop(self.mlp(self.ln_2(x)))


class Transformer(nn.Module):
    def __init__(self, vocabulary, layers, width, hidden, dropout):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.places = nn.ModuleList(nn.Embedding(CONTEXT, width) for _ in range(2))
        self.encoder = nn.ModuleList(Block(width, hidden, dropout, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, hidden, dropout, True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop = nn.Dropout(dropout)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if name.endswith(("out.weight", "mlp.2.weight")) else 0.02)
            elif "bias" in name:
                nn.init.zeros_(p)

    def embed(self, tokens, side):
        return self.drop(self.table(tokens) + self.places[side].weight[: tokens.shape[1]])

    def encode(self, source, lengths):
        mask = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
        x = self.embed(source, 0)
        for block in self.encoder:
            x = block(x, mask)
        return self.norms[0](x), mask

    def decode(self, tokens, memory, mask):
        x = self.embed(tokens, 1)
        for block in self.decoder:
            x = block(x, mask, memory)
        return F.linear(self.norms[1](x), self.table.weight)


def read(model, source, target):
    def rows(path):
        lines = gzip.open(path, "rt", encoding="utf8").read().splitlines()
        return [model.encode(line.strip())[: CONTEXT - 1] for line in lines]

    return list(zip(rows(source), rows(target)))


def batch_of(pairs, length):
    lengths = torch.tensor([len(source) + 1 for source, _ in pairs])
    fill = lambda tokens: tokens + [END] * (length - len(tokens))
    source = torch.tensor([fill(source) for source, _ in pairs])
    following = torch.tensor([fill(target) for _, target in pairs])
    tokens = torch.cat([torch.full((len(pairs), 1), END), following[:, :-1]], 1)
    counts = torch.arange(length) <= torch.tensor([len(target) for _, target in pairs])[:, None]
    return source, lengths, tokens, following, counts


def translate(net, source, beam):
    """The hypothesis with the highest mean of logarithms, of `beam` that are followed until as many have ended."""
    memory, mask = net.encode(torch.tensor([source + [END]]), torch.tensor([len(source) + 1]))
    open_ones, ended = [([END], 0.0)], []
    for _ in range(CONTEXT - 1):
        tokens = torch.tensor([tokens for tokens, _ in open_ones])
        logits = net.decode(tokens, memory.expand(len(tokens), -1, -1), mask)[:, -1].log_softmax(-1)
        scores = logits + torch.tensor([score for _, score in open_ones])[:, None]
        best = scores.flatten().topk(beam)
        following = []
        for score, place in zip(best.values.tolist(), best.indices.tolist()):
            tokens = open_ones[place // scores.shape[1]][0] + [place % scores.shape[1]]
            (ended if tokens[-1] == END else following).append((tokens, score))
        open_ones = following
        if len(ended) >= beam or not open_ones:
            break
    tokens, _ = max(ended or open_ones, key=lambda one: one[1] / (len(one[0]) - 1))
    return [token for token in tokens if token != END]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tokenizer")
    parser.add_argument("--buckets", type=int, nargs="*", default=[12, 16, 20, 26])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=0, help="end after so many, to measure the speed")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--translations", default="")
    o = parser.parse_args()

    torch.manual_seed(o.seed)
    model = sentencepiece.SentencePieceProcessor(model_file=o.tokenizer)
    train, held_out = (read(model, o.folder / f"{part}.en.gz", o.folder / f"{part}.de.gz") for part in ("train", "val"))
    lengths = o.buckets + [CONTEXT]
    bucket = lambda pair: next(n for n in lengths if n > max(len(pair[0]), len(pair[1])))
    steps = sum(sum(bucket(pair) == n for pair in train) // o.batch for n in lengths)
    net = Transformer(model.vocab_size(), o.layers, o.width, o.hidden, 0.1)
    matrices = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}], lr=1e-3, betas=(0.9, 0.98)
    )
    total = o.epochs * steps
    rate = lambda step: (step + 1) / steps if step < steps else 0.5 * (1 + math.cos(math.pi * (step - steps) / (total - steps)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    done, start, paused = 0, time.time(), 0.0
    for epoch in range(o.epochs):
        net.train()
        full = {n: [] for n in lengths}
        for index in torch.randperm(len(train)).tolist():
            n = bucket(train[index])
            full[n].append(train[index])
            if len(full[n]) < o.batch:
                continue
            source, own, tokens, following, counts = batch_of(full[n], n)
            full[n] = []
            optimizer.zero_grad(set_to_none=True)
            logits = net.decode(tokens, *net.encode(source, own))
            F.cross_entropy(logits[counts], following[counts], label_smoothing=0.1).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            if done == o.steps:
                print(f"{done / (time.time() - start):.2f} steps/s")
                return
        begun = time.time()
        net.eval()
        loss = count = 0
        with torch.no_grad():
            for i in range(0, len(held_out), 128):
                source, own, tokens, following, counts = batch_of(held_out[i : i + 128], CONTEXT)
                logits = net.decode(tokens, *net.encode(source, own))
                loss += F.cross_entropy(logits[counts], following[counts], reduction="sum").item()
                count += counts.sum().item()
        paused += time.time() - begun
        print(f"epoch {epoch + 1}: perplexity {math.exp(loss / count):.2f}, {done / (time.time() - start - paused):.2f} steps/s", flush=True)
    if o.translations:
        lines = gzip.open(o.folder / "test_2016_flickr.en.gz", "rt", encoding="utf8").read().splitlines()
        with open(o.translations, "w", encoding="utf8") as out, torch.no_grad():
            for line in lines:
                out.write(model.decode(translate(net, model.encode(line.strip())[: CONTEXT - 1], o.beam)) + "\n")


if __name__ == "__main__":
    main()
