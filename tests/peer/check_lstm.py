#!/usr/bin/env python3
"""Draws a text, has `podium inspect` make a step of a small LSTM on it, and recomputes that step with torch.nn.LSTM in double
precision: the logits, the loss, every gradient, the state that goes on, and what gradient descent makes of the parameters after
their norm is limited.

    python3 tests/peer/check_lstm.py build/podium [OVERRIDE...]

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

RECIPE = f"""model = "lstm"
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


def check(path, step):
    tensors, found = load_file(path), Comparison()
    names = [name.removeprefix("before/") for name in tensors if name.startswith("before/") and "carried." not in name]
    p = {name: tensors[f"before/{name}"].double().requires_grad_() for name in names}

    def dropped(name, x):
        return x * tensors[f"dropout/{name}"].double().view_as(x)

    def state(when, layer, part):  # [replicas, rows, width], as the layer's own [1, rows, width]
        return tensors[f"{when}/carried.lstm.l{layer}.{part}"].double().view(1, BATCH, WIDTH)

    x = dropped("drop", p["embedding.weight"][tensors["tokens"].long()])
    after = {}
    for layer in range(LAYERS):
        # The network's own parameters, so that gradients reach them.
        weights = [p[f"lstm.{part}_l{layer}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        x, hidden, cells = torch.lstm(x, (state("before", layer, "hidden"), state("before", layer, "cells")), weights,
                                      True, 1, 0.0, False, False, True)
        after[layer] = (hidden.detach(), cells.detach())
        x = dropped(f"lstm.drop_l{layer}", x)
    logits = F.linear(x, p["head.weight"], p["head.bias"]).view(BATCH * CONTEXT, -1)
    found.tensor("logits", tensors["logits"], logits.detach())
    loss = F.cross_entropy(logits, tensors["next"].long().view(-1))
    found.tensor("loss", tensors["loss"].double().mean(), loss.detach())
    for layer, (hidden, cells) in after.items():
        found.tensor(f"hidden {layer}", state("after", layer, "hidden"), hidden)
        found.tensor(f"cells {layer}", state("after", layer, "cells"), cells)
    loss.backward()
    norm = torch.sqrt(sum((value.grad**2).sum() for value in p.values()))
    factor = min(1.0, CLIP / norm.item())
    for name, value in p.items():
        found.tensor(f"gradient/{name}", tensors[f"gradient/{name}"], value.grad)
        found.tensor(f"after/{name}", tensors[f"after/{name}"], value.detach() - RATE * factor * value.grad)
    found.require((step == 1) == all(state("before", 0, part).eq(0).all() for part in ("hidden", "cells")),
                  f"step {step}: only the first one begins with a state of zeros")
    print(f"step {step}: loss {loss.item():.6f}, norm of the gradients {norm.item():.4f}, largest relative error {found.worst:.1e}")
    return found.failed


def main():
    failed = False
    for step, out in inspected(sys.argv[1], RECIPE, sys.argv[2:], (1, 20)):
        failed |= check(out, step)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
