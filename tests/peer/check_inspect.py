#!/usr/bin/env python3
"""Recomputes a step of a recipe with PyTorch in double precision and compares every tensor that `podium inspect` wrote of
it:

    podium inspect mnist --step 5 --out step5.safetensors
    podium inspect cifar10-sprint batch=64 replicas=2 --step 3 --out step3.safetensors
    python3 tests/peer/check_inspect.py step5.safetensors

Knows the models mnist, davidnet, resnet32, sprint and, by torchvision, resnet18, resnet34 and resnet50, and the optimizers
sgd, lars, adam and muon. Needs torch, safetensors and Python 3.11. Prints, for each tensor, the largest and the root mean square error, both over the tensor's root mean square;
exits 1 where a largest one is above --limit or a mean one above --mean-limit.

The derivatives of ReLU and of maxima are not continuous: where rounding moves an input across a corner, the gradient moves
by the whole share of that activation, and both sides are right. If a share f of the activations falls on the other side,
gradients move by about sqrt(f) relative to their size. A file that was written with --activations says on which side each
activation fell. Then the same branch is taken here, gradients are continuous in the rounding, and every tensor has the limits.
Prints also the share of activations that fell on the other side here.

Without activations in the file, only the number of inputs near corners is known: where there is one, it is the mean error
of gradients and what follows from them that has a limit, --near-corner-limit. Logits, losses and running statistics have
--limit always.
"""
import argparse
import functools
import json
import math
import sys
import tomllib

import torch
import torch.nn.functional as F
from safetensors import safe_open

NEAR = 4e-6
CORNERS = []  # how many inputs lie near a corner, for each operation that has one


class Branches:
    """On which side of its corner each input fell in the inspected step, in the order of the network."""

    def __init__(self, values):
        self.values, self.at = values, {"activation": 0, "pooled": 0}
        self.moved = self.count = 0  # activations that fall on the other side here; all

    def next(self, kind):
        self.at[kind] += 1
        return self.values[f"{kind}/{self.at[kind] - 1}"]

    def relu(self, x, slope=0.0):
        above = self.next("activation") > 0
        self.moved += int((above != (x > 0)).sum())
        self.count += x.numel()
        return torch.where(above, x, slope * x)

    def max_pool(self, x, *window):
        seen = self.next("pooled")
        height, width = seen.shape[2:]  # without pixels that no window reads
        x = x[:, :, :height, :width].contiguous()
        _, places = F.max_pool2d(seen, *window, return_indices=True)
        return x.flatten(2).gather(2, places.flatten(2)).view_as(places)


class Net:
    """The parameters of a model, and the layers that its function calls."""

    def __init__(self, parameters, dropout, running, keep, epsilon, branches):
        self.p, self.dropout, self.running, self.keep, self.epsilon = parameters, dropout, running, keep, epsilon
        self.branches = branches

    def conv(self, name, x, stride=1, padding=1):
        if stride == 2 and padding == 1:  # `same`: the odd row and column lie below and to the right
            x, padding = F.pad(x, (0, 1, 0, 1)), 0
        return F.conv2d(x, self.p[f"{name}.weight"], self.p.get(f"{name}.bias"), stride=stride, padding=padding)

    def norm(self, name, x):
        mean, var = self.p[f"{name}.running_mean"].clone(), self.p[f"{name}.running_var"].clone()
        y = F.batch_norm(x, mean, var, self.p.get(f"{name}.weight"), self.p[f"{name}.bias"], True, 1 - self.keep, self.epsilon)
        self.running.setdefault(f"{name}.running_mean", []).append(mean)
        self.running.setdefault(f"{name}.running_var", []).append(var)
        return y

    def relu(self, x, slope=0.0):
        if self.branches:
            return self.branches.relu(x, slope)
        CORNERS.append(int((x.abs() < NEAR).sum()))
        return F.leaky_relu(x, slope)

    def gelu(self, x):
        if self.branches:
            self.branches.next("activation")
        return F.gelu(x)

    def max_pool(self, x, window):
        n, c, h, w = x.shape
        if self.branches:
            return self.branches.max_pool(x[:, :, : h // window * window, : w // window * window], window)
        x = x[:, :, : h // window * window, : w // window * window]
        best = x.unfold(2, window, window).unfold(3, window, window).flatten(4).topk(2).values
        # Equal values of a ReLU are zeros, whose gradient goes nowhere.
        CORNERS.append(int(((best[..., 0] - best[..., 1] < NEAR) & (best[..., 0] != best[..., 1])).sum()))
        return F.max_pool2d(x, window)

    def dense(self, name, x):
        return F.linear(x, self.p[f"{name}.weight"], self.p.get(f"{name}.bias"))


def mnist(net, x):
    x = net.relu(net.norm("bn1", net.conv("conv1", x)))
    x = net.relu(net.norm("bn2", net.conv("conv2", x, 2, 2)))
    x = net.relu(net.norm("bn3", net.conv("conv3", x, 2, 2)))
    x = net.relu(net.norm("bn4", net.dense("fc1", x.flatten(1))))
    return net.dense("fc2", x * net.dropout["dropout"])


def davidnet(net, x):
    unit = lambda name, x: net.relu(net.norm(f"{name}.bn", net.conv(f"{name}.conv", x)))
    residual = lambda name, x: x + unit(f"{name}.res2", unit(f"{name}.res1", x))
    x = residual("layer1", net.max_pool(unit("layer1", unit("prep", x)), 2))
    x = net.max_pool(unit("layer2", x), 2)
    x = residual("layer3", net.max_pool(unit("layer3", x), 2))
    return net.dense("linear", net.max_pool(x, x.shape[2]).flatten(1)) * 0.125


def resnet32(net, x):
    norm = lambda name, x: net.relu(net.norm(name, x), 0.1)
    x, width = net.conv("conv1", x), 16
    for stage, channels in enumerate((16, 32, 64), 1):
        for i in range(1, 6):
            name, stride = f"stage{stage}.{i}", 2 if stage > 1 and i == 1 else 1
            y = norm(f"{name}.bn1", x)
            shortcut = y if (stage, i) == (1, 1) else x
            y = net.conv(f"{name}.conv2", norm(f"{name}.bn2", net.conv(f"{name}.conv1", y, stride)))
            if channels != width:
                pad = (channels - width) // 2
                shortcut, width = F.pad(F.avg_pool2d(shortcut, stride), (0, 0, 0, 0, pad, pad)), channels
            x = y + shortcut
    return net.dense("fc", norm("bn", x).mean((2, 3)))


def sprint(net, x):
    x = net.gelu(net.conv("whiten", x, padding=0))
    for group in ("group1", "group2", "group3"):
        x = net.gelu(net.norm(f"{group}.bn1", net.max_pool(net.conv(f"{group}.conv1", x), 2)))
        x = net.gelu(net.norm(f"{group}.bn2", net.conv(f"{group}.conv2", x)))
    return net.dense("head", net.max_pool(x, 3).flatten(1)) / 256


def resnet(net, x, name):
    import torchvision

    classes = net.p["fc.weight"].shape[0]
    network = getattr(torchvision.models, name)(num_classes=classes).double().train()
    # Exact zeros are sums of what a ReLU or a norm with weight 0 gave, in FP32 as here; their gradient goes nowhere.
    near = lambda module, inputs: CORNERS.append(int(((inputs[0].abs() < NEAR) & (inputs[0] != 0)).sum()))

    def near_maximum(module, inputs):
        windows = F.pad(inputs[0], (1, 1, 1, 1), value=-1).unfold(2, 3, 2).unfold(3, 3, 2).flatten(4).topk(2).values
        close = (windows[..., 0] - windows[..., 1] < NEAR) & (windows[..., 0] != windows[..., 1])
        CORNERS.append(int(close.sum()))

    for module in network.modules():
        if net.branches and isinstance(module, torch.nn.ReLU):
            module.forward = net.branches.relu
        elif net.branches and isinstance(module, torch.nn.MaxPool2d):
            module.forward = lambda x: net.branches.max_pool(x, 3, 2, 1)
        elif isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(near)
        elif isinstance(module, torch.nn.MaxPool2d):
            module.register_forward_pre_hook(near_maximum)
    buffers = {name: value.clone() for name, value in net.p.items() if "running" in name}
    logits = torch.func.functional_call(network, {name: net.p.get(name) for name, _ in network.named_parameters()} | buffers, x)
    for name, value in buffers.items():
        net.running.setdefault(name, []).append(value)
    return logits


# Each with its batch norm: the share of the old statistics that is kept, and epsilon.
MODELS = {"mnist": (mnist, 0.99, 1e-3), "davidnet": (davidnet, 0.9, 1e-5), "resnet32": (resnet32, 0.9, 1e-3),
          "sprint": (sprint, 0.6, 1e-12)}
for depth in ("resnet18", "resnet34", "resnet50"):
    MODELS[depth] = MODELS[f"{depth}-zero"] = (functools.partial(resnet, name=depth), 0.9, 1e-5)


def optimizer_of(recipe, name, axes):
    """The optimizer's table for a parameter; weights of batch norm have one axis."""
    tables = recipe["optimizer"]
    group = None
    if name == "whiten.bias":
        group = "whitening"
    elif name.endswith(".weight") and "bn" not in name:
        group = "filters" if "conv" in name else "dense"
    own = tables.get(group, {"name": "same"})
    if own["name"] == "same":
        return tables | {"decays": axes > 1 or tables["decay_all"]}
    return own | {"decays": True, "decay": tables["decay"]}


def rate_of(recipe, own, step, steps_per_epoch, total):
    schedule, at = recipe["schedule"], float(step)
    if own.get("epochs"):
        if step >= own["epochs"] * steps_per_epoch:
            return 0.0
        at *= total / (own["epochs"] * steps_per_epoch)
    if schedule["unit"] == "epoch":
        at /= steps_per_epoch
    rate, points, factors = own["learning_rate"], schedule["boundaries"], schedule["factors"]
    if schedule["name"] in ("cosine", "polynomial"):
        scale = steps_per_epoch if schedule["unit"] == "epoch" else 1
        warmup = schedule["warmup"] * scale
        gone = max(0.0, step - warmup) / (total - warmup)
        share = (1 - gone) ** schedule["power"] if schedule["name"] == "polynomial" else (1 + math.cos(math.pi * gone)) / 2
        rate = schedule["floor"] + (rate - schedule["floor"]) * share
        return rate * min(1.0, (step + 1) / warmup) if warmup else rate
    if schedule["name"] == "exponential":
        return schedule["floor"] + rate * torch.exp(torch.tensor(-at / schedule["time_constant"], dtype=torch.float64)).item()
    if schedule["name"] == "piecewise":
        return rate * factors[sum(b <= at for b in points)]
    if schedule["name"] == "linear":
        for i in range(1, len(points)):
            if at <= points[i]:
                return rate * (factors[i - 1] + (factors[i] - factors[i - 1]) * (at - points[i - 1]) / (points[i] - points[i - 1]))
        return rate * factors[-1]
    return rate


def orthogonalised(x):
    x = x / (x.norm() + 1e-7)
    turned = x.shape[0] > x.shape[1]
    x = x.T if turned else x
    for _ in range(3):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x.T if turned else x


def updated(own, rate, replicas, step, p, g, state):
    """The parameter after the step, and its states."""
    if own["name"] == "muon":
        v = own["momentum"] * state["velocity"] + g
        d = g + own["momentum"] * v if own["nesterov"] else v
        weight = p * len(p) ** 0.5 / p.norm()
        return weight - rate * orthogonalised(d.flatten(1)).view_as(p), {"velocity": v}
    if own["name"] == "lars":
        ratio, decay = 1, own["weight_decay"] if own["decays"] else 0
        if own["decays"] and own["trust"]:
            ratio = own["trust"] * p.norm() / (g.norm() + decay * p.norm())
        v = own["momentum"] * state["velocity"] + rate * ratio * (g + decay * p)
        return p - v, {"velocity": v}
    if own["decays"]:
        g = g + own["weight_decay"] * (replicas if own["decay"] == "per-replica" else 1) * p
    if own["name"] == "sgd":
        v = own["momentum"] * state["velocity"] + g
        return p - rate * (g + own["momentum"] * v if own["nesterov"] else v), {"velocity": v}
    m = own["beta1"] * state["m"] + (1 - own["beta1"]) * g
    v = own["beta2"] * state["v"] + (1 - own["beta2"]) * g * g
    root = (v / (1 - own["beta2"] ** step)).sqrt() + own["epsilon"]
    return p - rate * m / (1 - own["beta1"] ** step) / root, {"m": m, "v": v}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--limit", type=float, default=2e-4, help="of the largest error")
    parser.add_argument("--mean-limit", type=float, help="of the mean error; --limit unless it is given")
    parser.add_argument("--near-corner-limit", type=float, default=0.02, help="of the mean error")
    args = parser.parse_args()
    with safe_open(args.file, "pt") as f:
        t = {name: f.get_tensor(name) for name in f.keys()}
        metadata = f.metadata()
    t = {name: v.double() if v.is_floating_point() else v.long() for name, v in t.items()}
    step, recipe = int(metadata["step"]), tomllib.loads(metadata["recipe"])
    steps_per_epoch, total = int(metadata["steps_per_epoch"]), int(metadata["total_steps"])
    model, keep, epsilon = MODELS[recipe["model"]]
    before = {name[len("before/"):]: v for name, v in t.items() if name.startswith("before/")}
    trained = {name: v.requires_grad_() for name, v in before.items() if f"gradient/{name}" in t}

    replicas = len(t["loss"])
    running, logits, losses, branches = {}, [], [], []
    for rows in torch.arange(len(t["labels"])).chunk(replicas):
        dropout = {name[len("dropout/"):]: v[rows] for name, v in t.items() if name.startswith("dropout/")}
        seen = {name: v[rows] for name, v in t.items() if name.startswith(("activation/", "pooled/"))}
        branches.append(Branches(seen) if seen else None)
        logits.append(model(Net(before, dropout, running, keep, epsilon, branches[-1]), t["inputs"][rows]))
        losses.append(F.cross_entropy(logits[-1], t["labels"][rows], label_smoothing=recipe["label_smoothing"]))
    (sum(losses) / replicas).backward()

    expected = {"logits": torch.cat(logits), "loss": torch.stack(losses)}
    for name, parameter in trained.items():
        expected[f"gradient/{name}"] = parameter.grad
        own, prefix = optimizer_of(recipe, name, parameter.dim()), f"state_before/{name}/"
        state = {key[len(prefix):]: v for key, v in t.items() if key.startswith(prefix)}
        rate = rate_of(recipe, own, step - 1, steps_per_epoch, total)
        after, states = updated(own, rate, replicas, step, parameter.detach(), parameter.grad, state)
        expected[f"after/{name}"] = after
        expected |= {f"state_after/{name}/{key}": v for key, v in states.items()}
    for name, value in before.items():
        if name not in trained and "running" not in name:
            expected[f"after/{name}"] = value
    for name, values in running.items():
        expected[f"after/{name}"] = sum(values) / replicas

    near, worst, failed = sum(CORNERS), 0.0, []
    for name, value in expected.items():
        error, size = (t[name] - value.detach()).abs(), max(value.detach().pow(2).mean().sqrt().item(), 1e-30)
        largest, mean = error.max().item() / size, error.pow(2).mean().sqrt().item() / size
        worst = max(worst, largest)
        exact = name in ("logits", "loss") or "running" in name or near == 0
        within = largest <= args.limit and mean <= (args.mean_limit or args.limit)
        if not (within if exact else mean <= args.near_corner_limit):
            failed.append(name)
        print(f"{name:40} {largest:10.2e} {mean:10.2e}")
    moved = sum(b.moved for b in branches) / sum(b.count for b in branches) if all(branches) else None
    unseen = [n for n in t if n.split("/")[0] in ("gradient", "after", "state_after") and n not in expected]
    print(json.dumps({"recipe": recipe["name"], "step": step, "replicas": replicas, "tensors": len(expected), "worst": worst,
                      "inputs_near_corners": near, "activations_moved": moved, "failed": failed, "unseen": unseen}))
    return 1 if failed or unseen else 0


if __name__ == "__main__":
    sys.exit(main())
