#!/usr/bin/env python3
"""Draws a text, has `podium inspect` make a step of a small network of recurrent layers on it, and recomputes that step with
PyTorch's own in double precision: the logits, the loss, every gradient, the state that goes on, and what gradient descent makes of the parameters after
their norm is limited.

    python3 tests/peer/check_recurrent.py lstm|gru build/podium [OVERRIDE...]

Needs torch and safetensors; exits 77 where they are missing, so that ctest calls the test skipped. Exits 1 where a value
differs by more than inspected.LIMIT of the largest value of its tensor.
"""
import sys

from inspected import Comparison, inspected

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LAYERS, WIDTH, CONTEXT, BATCH, REPLICAS = 2, 20, 12, 8, 4
RATE, CLIP = 2.0, 0.1

RECIPE = f"""model = "MODEL"
batch = {BATCH}
replicas = {REPLICAS}
steps = 50

[network]
layers = {LAYERS}
width = {WIDTH}
tied = false
dropout = 0.1
initial_range = 0.3

[data]
name = "text"
path = "drawn.txt"
tokenizer = "chars"
context = {CONTEXT}
order = "streams"

[optimizer]
name = "sgd"
learning_rate = {RATE}
clip_norm = {CLIP}
"""


def check(model, path, step):
    tensors, found = load_file(path), Comparison()
    names = [name.removeprefix("before/") for name in tensors if name.startswith("before/") and "carried." not in name]
    p = {name: tensors[f"before/{name}"].double().requires_grad_() for name in names}

    def dropped(name, x):
        return x * tensors[f"dropout/{name}"].double().view_as(x)

    parts = ("hidden", "cells") if model == "lstm" else ("hidden",)

    def states(when, layer):  # each [replicas, rows, width], as the layer's own [1, rows, width]
        return [tensors[f"{when}/carried.{model}.l{layer}.{part}"].double().view(1, BATCH, WIDTH) for part in parts]

    x = dropped("drop", p["embedding.weight"][tensors["tokens"].long()])
    after = {}
    for layer in range(LAYERS):
        # The network's own parameters, so that gradients reach them.
        weights = [p[f"{model}.{part}_l{layer}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        before = states("before", layer)
        # The results: the hidden states, and those that go on.
        read = torch.lstm if model == "lstm" else torch.gru
        x, *after[layer] = read(x, before if model == "lstm" else before[0], weights, True, 1, 0.0, False, False, True)
        x = dropped(f"{model}.drop_l{layer}", x)
    logits = F.linear(x, p["head.weight"], p["head.bias"]).view(BATCH * CONTEXT, -1)
    found.tensor("logits", tensors["logits"], logits.detach())
    loss = F.cross_entropy(logits, tensors["next"].long().view(-1))
    found.tensor("loss", tensors["loss"].double().mean(), loss.detach())
    for layer, values in after.items():
        for part, ours, value in zip(parts, states("after", layer), values):
            found.tensor(f"{part} {layer}", ours, value.detach())
    loss.backward()
    norm = torch.sqrt(sum((value.grad**2).sum() for value in p.values()))
    factor = min(1.0, CLIP / norm.item())
    for name, value in p.items():
        found.tensor(f"gradient/{name}", tensors[f"gradient/{name}"], value.grad)
        found.tensor(f"after/{name}", tensors[f"after/{name}"], value.detach() - RATE * factor * value.grad)
    found.require((step == 1) == all(state.eq(0).all() for state in states("before", 0)),
                  f"step {step}: only the first one begins with a state of zeros")
    print(f"step {step}: loss {loss.item():.6f}, norm of the gradients {norm.item():.4f}, largest relative error {found.worst:.1e}")
    return found.failed


def main():
    failed = False
    model = sys.argv[1]
    for step, out in inspected(sys.argv[2], RECIPE.replace("MODEL", model), sys.argv[3:], (1, 20)):
        failed |= check(model, out, step)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
