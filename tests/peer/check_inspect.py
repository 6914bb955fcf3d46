#!/usr/bin/env python3
"""Recomputes a step of the recipe `mnist` with PyTorch in double precision and compares every tensor that
`podium inspect` wrote of it:

    podium inspect mnist --step 5 --out step5.safetensors
    python3 tests/peer/check_inspect.py step5.safetensors

Needs torch and safetensors. Prints, for each tensor, the largest absolute error and that error over the tensor's root
mean square; exits 1 where one is above --limit. A ReLU whose input lies within FP32's rounding of zero may rightly fall
on either side, which moves gradients by one activation's share: where there is such an input, gradients have
--near-zero-limit. Logits, losses and running statistics have --limit always.
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open

BATCH_NORM = {"momentum": 0.01, "eps": 1e-3}  # PyTorch's momentum is the share of the new value
NEAR_ZERO = []  # how many ReLU inputs lie near zero, for each ReLU that ran
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


def replica(p, running, x, dropout):
    """Logits of one replica; appends its new running statistics to `running`."""

    def norm(name, v):
        mean, var = p[f"{name}.running_mean"].clone(), p[f"{name}.running_var"].clone()
        y = F.batch_norm(v, mean, var, p[f"{name}.weight"], p[f"{name}.bias"], True, **BATCH_NORM)
        running.setdefault(f"{name}.running_mean", []).append(mean)
        running.setdefault(f"{name}.running_var", []).append(var)
        NEAR_ZERO.append(int((y.abs() < 4e-6).sum()))
        return F.relu(y)

    x = norm("bn1", F.conv2d(x, p["conv1.weight"], padding=1))
    x = norm("bn2", F.conv2d(x, p["conv2.weight"], stride=2, padding=2))
    x = norm("bn3", F.conv2d(x, p["conv3.weight"], stride=2, padding=2))
    x = norm("bn4", x.flatten(1) @ p["fc1.weight"].T)
    return (x * dropout) @ p["fc2.weight"].T


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--limit", type=float, default=2e-4, help="error over root mean square")
    parser.add_argument("--near-zero-limit", type=float, default=0.05)
    args = parser.parse_args()
    with safe_open(args.file, "pt") as f:
        t = {name: f.get_tensor(name) for name in f.keys()}
        metadata = f.metadata()
    t = {name: v.double() if v.is_floating_point() else v.long() for name, v in t.items()}
    step = int(metadata["step"])
    before = {name[len("before/"):]: v for name, v in t.items() if name.startswith("before/")}
    trained = {name: v.requires_grad_() for name, v in before.items() if "running" not in name}

    replicas = len(t["loss"])
    rows = torch.arange(len(t["labels"])).chunk(replicas)
    running, logits, losses = {}, [], []
    for r in rows:
        logits.append(replica(before, running, t["inputs"][r], t["dropout/dropout"][r]))
        losses.append(F.cross_entropy(logits[-1], t["labels"][r]))
    (sum(losses) / replicas).backward()

    expected = {"logits": torch.cat(logits), "loss": torch.stack(losses)}
    rate = 1e-4 + 0.01 * torch.exp(torch.tensor(-(step - 1) / 2000, dtype=torch.float64))
    for name, parameter in trained.items():
        g = parameter.grad
        expected[f"gradient/{name}"] = g
        m = ADAM["beta1"] * t[f"state_before/{name}/m"] + (1 - ADAM["beta1"]) * g
        v = ADAM["beta2"] * t[f"state_before/{name}/v"] + (1 - ADAM["beta2"]) * g * g
        expected[f"state_after/{name}/m"], expected[f"state_after/{name}/v"] = m, v
        root = (v / (1 - ADAM["beta2"] ** step)).sqrt() + ADAM["epsilon"]
        expected[f"after/{name}"] = parameter - rate * m / (1 - ADAM["beta1"] ** step) / root
    for name, values in running.items():
        expected[f"after/{name}"] = sum(values) / replicas

    near_zero, worst, failed = sum(NEAR_ZERO), 0.0, []
    for name, value in expected.items():
        error = (t[name] - value.detach()).abs().max().item()
        relative = error / max(value.detach().pow(2).mean().sqrt().item(), 1e-30)
        worst = max(worst, relative)
        forward = name in ("logits", "loss") or "running" in name
        if relative > (args.limit if forward or near_zero == 0 else args.near_zero_limit):
            failed.append(name)
        print(f"{name:32} {error:10.2e} {relative:10.2e}")
    unseen = [n for n in t if n.split("/")[0] in ("gradient", "after", "state_after") and n not in expected]
    print(json.dumps({"step": step, "replicas": replicas, "tensors": len(expected), "worst": worst,
                      "relu_inputs_near_zero": near_zero, "failed": failed, "unseen": unseen}))
    return 1 if failed or unseen else 0


if __name__ == "__main__":
    sys.exit(main())
