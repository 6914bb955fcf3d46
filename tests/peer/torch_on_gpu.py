"""Images/s of recipes' training steps in PyTorch on a GPU, by the models and optimizers of torch_bench.py, which is no part of
Podium: --peers names its folder. scripts/check-gpu.sh runs this. Prints a line for each case, as soon as it is measured: its name and a
number, or the error. Exit code 77: PyTorch or its CUDA is missing.

    torch_on_gpu.py cifar10-davidnet:fp32 cifar10-davidnet:bf16+channels_last+compile --peers DIR --data DIR

Modes, joined by +: fp32 (TF32 off), tf32, bf16 (autocast), compile (torch.compile with CUDA graphs), autotune (the same, with
max-autotune), channels_last.
"""

import argparse
import statistics
import sys
import time


def measure(torch, torch_bench, data, recipe, mode, arguments):
    mode = set(mode.split("+"))
    if mode - {"fp32", "tf32", "bf16", "compile", "autotune", "channels_last"}:
        raise ValueError("unknown mode")
    arguments.compiler = "max-autotune" if "autotune" in mode else "reduce-overhead"
    if "autotune" in mode:
        mode.add("compile")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = "tf32" in mode
    batch = {"imagenet-resnet50": 256}.get(recipe, data.BATCH[recipe])  # theirs is for CPUs
    model, batches = torch_bench.build(recipe, arguments.data, batch, mode)
    model = model.to(arguments.device)
    batches = [(x.to(arguments.device), y.to(arguments.device)) for x, y in batches]
    step = torch_bench.train_step(recipe, model, batch, mode)
    times = []
    warm_up = 20
    for number in range(warm_up + arguments.steps):
        x, y = batches[number % len(batches)]
        begin = time.perf_counter()
        step(x, y, number)  # which waits for the loss
        times.append(time.perf_counter() - begin)
    return round(batch / statistics.median(times[warm_up:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="RECIPE:MODE")
    parser.add_argument("--peers", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed", file=sys.stderr)
        return 77
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch has no CUDA, or finds no GPU", file=sys.stderr)
        return 77
    sys.path.insert(0, arguments.peers)
    import data
    import torch_bench

    torch.backends.cudnn.benchmark = True
    # torch_bench.py names the CPU, and compiles without CUDA graphs. What a step calls several times keeps its results apart
    # only without them.
    autocast, compiled = torch.autocast, torch.compile
    torch.autocast = lambda _, *a, **k: autocast(arguments.device, *a, **k)
    torch.compile = lambda f: compiled(f, mode=arguments.compiler if f.__name__ == "forward" else "default")
    for case in arguments.cases:
        recipe, _, mode = case.partition(":")
        try:
            result = measure(torch, torch_bench, data, recipe, mode, arguments)
        except Exception as error:  # the others are measured all the same
            result = " ".join(f"{type(error).__name__}: {error}".split())[:100]
        print(case, result, flush=True)
    return 0


sys.exit(main())
