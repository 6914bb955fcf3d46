#!/usr/bin/env python3
"""Loads an exported GPT in Hugging Face's transformers and compares its validation loss with Podium's.

Usage: check_transformers.py BOOK [PODIUM]

BOOK is a text file; PODIUM is the program (default: build/podium). Trains a small GPT on the bytes of the book, exports it in FP32,
FP16 and BF16, loads each file into GPT2LMHeadModel without missing or unexpected weights, and computes the loss of the validation part
in the windows that Podium evaluates. Needs torch, transformers and safetensors.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

WIDTH, LAYERS, HEADS, CONTEXT = 64, 2, 4, 64


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def network(weights):
    config = transformers.GPT2Config(vocab_size=weights["transformer.wte.weight"].shape[0], n_positions=CONTEXT, n_embd=WIDTH,
                                     n_layer=LAYERS, n_head=HEADS, activation_function="gelu_new", resid_pdrop=0, embd_pdrop=0,
                                     attn_pdrop=0, bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).double().eval()
    missing, unexpected = model.load_state_dict({name: value.double() for name, value in weights.items()}, strict=False)
    # The head shares the embedding's weights.
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model


def loss_of(model, tokens):
    """The mean over all targets, in windows of CONTEXT tokens side by side."""
    total, count = 0.0, 0
    with torch.no_grad():
        for first in range(0, len(tokens) - 1, CONTEXT):
            part = torch.tensor(tokens[first:first + CONTEXT + 1])
            logits = model(part[None, :-1]).logits[0]
            total += torch.nn.functional.cross_entropy(logits, part[1:], reduction="sum").item()
            count += len(part) - 1
    return total / count, count


def main():
    book, program = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/podium").resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run(program, "train", f"text:{book}", "data.tokenizer=bytes", f"data.context={CONTEXT}", f"network.width={WIDTH}",
            f"network.layers={LAYERS}", f"network.heads={HEADS}", "network.tied=true", "network.bias=true",
            "network.gelu_tanh=true", "--steps", 200, "--out", folder / "run", "--quiet")
        held_out = folder / "held_out.txt"
        held_out.write_bytes(book.read_bytes()[-(300 * CONTEXT + 1):])
        result = json.loads(run(program, "eval", folder / "run", "--text", held_out, "--json"))
        for dtype, tolerance in (("fp32", 1e-6), ("fp16", 1e-4), ("bf16", 1e-3)):
            file = folder / f"{dtype}.safetensors"
            run(program, "export", folder / "run", "--safetensors", file, "--dtype", dtype)
            loss, count = loss_of(network(load_file(file)), list(held_out.read_bytes()))
            print(f"{dtype}: loss {loss:.7f} of {count} targets in transformers {transformers.__version__}, "
                  f"{result['loss']:.7f} in Podium")
            assert abs(loss - result["loss"]) <= tolerance * result["loss"], "too far"


if __name__ == "__main__":
    main()
