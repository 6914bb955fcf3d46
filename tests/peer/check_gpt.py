#!/usr/bin/env python3
"""Draws a text, has `podium inspect` make a step of a small GPT on it, and recomputes that step with PyTorch in double
precision: the logits, the loss, every gradient, and what AdamW makes of them after their norm is limited.

    python3 tests/peer/check_gpt.py build/podium [OVERRIDE...]
    python3 tests/peer/check_gpt.py build/podium --gpt2-124m SHARDS   # the first step of GPT-2 of 124 million parameters; 10 GB

Needs torch and safetensors; exits 77 where they are missing, so that ctest calls the test skipped. Exits 1 where a value
differs by more than inspected.LIMIT of the largest value of its tensor.
"""
import os
import sys

from inspected import Comparison, inspected

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, REPLICAS = 3, 4, 32, 24, 8, 4
RATE, DECAY, CLIP, BETA1, BETA2, EPSILON = 1e-2, 0.1, 0.5, 0.9, 0.99, 1e-8
GELU = "none"
DATA = """path = "drawn.txt"
tokenizer = "chars"
"""
NETWORK = "dropout = 0.1"
whole = len(sys.argv) == 4 and sys.argv[2] == "--gpt2-124m"
if whole:
    LAYERS, HEADS, WIDTH, CONTEXT, BATCH, REPLICAS = 12, 12, 768, 64, 4, 2
    RATE, CLIP, BETA2 = 6e-4, 1.0, 0.95
    GELU = "tanh"
    DATA = f'path = "{os.path.abspath(sys.argv[3])}"\nvocabulary = 50304\n'
    NETWORK = "tied = true\nbias = true\ngelu_tanh = true"

RECIPE = f"""model = "gpt"
batch = {BATCH}
replicas = {REPLICAS}
steps = 50

[network]
layers = {LAYERS}
heads = {HEADS}
width = {WIDTH}
{NETWORK}

[data]
name = "text"
{DATA}context = {CONTEXT}

[optimizer]
name = "adamw"
learning_rate = {RATE}
beta2 = {BETA2}
weight_decay = {DECAY}
clip_norm = {CLIP}
"""


def logits_of(tensors, p, tied):
    """tensors: what was inspected; p: the parameters, in double precision."""

    def dropped(name, x):
        mask = tensors.get(f"dropout/{name}")
        return x if mask is None else x * mask.double().view_as(x)

    def dense(name, x):
        return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))

    def norm(name, x):
        return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p.get(f"{name}.bias"))

    tokens = tensors["tokens"].long()
    x = dropped("drop", p["wte.weight"][tokens] + p["wpe.weight"])
    for i in range(LAYERS):
        h = norm(f"h.{i}.ln_1", x)
        q, k, v = (dense(f"h.{i}.attn.{part}", h).view(BATCH, CONTEXT, HEADS, -1).transpose(1, 2)
                   for part in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH)
        x = x + dropped(f"h.{i}.attn.drop", dense(f"h.{i}.attn.c_proj", y))
        h = F.gelu(dense(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x)), approximate=GELU)
        x = x + dropped(f"h.{i}.mlp.drop", dense(f"h.{i}.mlp.c_proj", h))
    x = norm("ln_f", x)
    return F.linear(x, p["wte.weight"]) if tied else dense("head", x)


def check(path, step, tied):
    tensors, found = load_file(path), Comparison()
    names = [name.removeprefix("before/") for name in tensors if name.startswith("before/")]
    p = {name: tensors[f"before/{name}"].double().requires_grad_() for name in names}
    logits = logits_of(tensors, p, tied)
    found.tensor("logits", tensors["logits"], logits.detach().view(BATCH * CONTEXT, -1))
    loss = F.cross_entropy(logits.view(BATCH * CONTEXT, -1), tensors["next"].long().view(-1))
    found.tensor("loss", tensors["loss"].double().mean(), loss.detach())
    loss.backward()
    norm = torch.sqrt(sum((value.grad**2).sum() for value in p.values()))
    factor = min(1.0, CLIP / norm.item())
    for name, value in p.items():
        # A bias of the keys changes no weight of attention: its gradient is 0, and both compute rounding errors.
        scale = p[name.replace("key", "query")].grad if name.endswith("key.bias") else None
        found.tensor(f"gradient/{name}", tensors[f"gradient/{name}"], value.grad, scale)
    optimizer = torch.optim.AdamW(
        [{"params": [v for v in p.values() if v.dim() > 1], "weight_decay": DECAY},
         {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}],
        RATE, betas=(BETA1, BETA2), eps=EPSILON)
    if step == 1:  # the optimizer's state is empty
        for value in p.values():
            value.grad *= factor
        before = {name: value.detach().clone() for name, value in p.items()}
        optimizer.step()
        for name, value in p.items():
            # Of how far it moved: where a gradient is as small as its rounding error, Adam divides it by itself.
            moved, theirs = tensors[f"after/{name}"].double() - before[name], value.detach() - before[name]
            sure = value.grad.abs() > max(1e-4 * value.grad.abs().max(), 1e-8)
            if not sure.any():
                continue
            error = ((moved - theirs).abs() / RATE)[sure].max().item()
            found.require(error <= 1e-3, f"after/{name}: error {error:.2e} of the learning rate")
    print(f"step {step}: loss {loss.item():.6f}, norm of the gradients {norm.item():.4f}, largest relative error {found.worst:.1e}")
    return found.failed


def main():
    if whole:
        return int(any(check(out, step, True) for step, out in inspected(sys.argv[1], RECIPE, [], (1,))))
    failed = False
    for tied in (True, False):
        for step, out in inspected(sys.argv[1], RECIPE, [f"network.tied={str(tied).lower()}", *sys.argv[2:]], (1, 20)):
            failed |= check(out, step, tied)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
