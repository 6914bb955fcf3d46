#!/usr/bin/env python3
"""Loads exported networks in the programs that they were named for, and compares what they compute with Podium.

Usage: check_transformers.py BOOK PHOTOS [PODIUM]

BOOK is a text file, PHOTOS a folder of pictures with a folder for each class; PODIUM is the program (default: build/podium).
A small GPT and a small Llama are trained on the bytes of the book and exported in FP32, FP16 and BF16; each file is loaded into
transformers' GPT2LMHeadModel or LlamaForCausalLM without missing or unexpected weights, and computes the loss of the book's last part in the
windows that Podium evaluates. A ResNet-18 is trained on the photos for a few steps and loaded into torchvision's. Needs torch,
transformers, torchvision and safetensors.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
import transformers
from safetensors.torch import load_file

WIDTH, LAYERS, HEADS, GROUPS, HIDDEN, CONTEXT = 64, 2, 4, 2, 96, 64
SIZES = [f"data.context={CONTEXT}", f"network.width={WIDTH}", f"network.layers={LAYERS}", f"network.heads={HEADS}"]


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def gpt():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=None, eos_token_id=None))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=256, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=GROUPS, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=None))


LANGUAGE_MODELS = {
    "gpt": (gpt, ["network.tied=true", "network.bias=true", "network.gelu_tanh=true"]),
    "llama": (llama, [f"network.groups={GROUPS}", f"network.hidden={HIDDEN}", "network.tied=true"]),
}


def load(model, file):
    weights = {name: value.double() for name, value in load_file(file).items()}
    missing, unexpected = model.double().eval().load_state_dict(weights, strict=False)
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


def check_language_models(program, book, folder):
    held_out = folder / "held_out.txt"
    held_out.write_bytes(book.read_bytes()[-(300 * CONTEXT + 1):])
    for name, (make, keys) in LANGUAGE_MODELS.items():
        out = folder / name
        run(program, "train", f"text:{book}", f"model={name}", "data.tokenizer=bytes", *SIZES, *keys, "--steps", 200, "--out", out,
            "--quiet")
        own = json.loads(run(program, "eval", out, "--text", held_out, "--json"))["loss"]
        for dtype, tolerance in (("fp32", 1e-6), ("fp16", 1e-4), ("bf16", 1e-3)):
            file = folder / f"{name}-{dtype}.safetensors"
            run(program, "export", out, "--safetensors", file, "--dtype", dtype)
            loss, count = loss_of(load(make(), file), list(held_out.read_bytes()))
            print(f"{name}, {dtype}: loss {loss:.7f} of {count} targets in transformers {transformers.__version__}, "
                  f"{own:.7f} in Podium")
            assert abs(loss - own) <= tolerance * own, "too far"


def check_resnet(program, photos, folder):
    classes = len([one for one in photos.iterdir() if one.is_dir()])
    out, file = folder / "resnet", folder / "resnet.safetensors"
    run(program, "train", f"folder:{photos}", "model=resnet18", "batch=16", "replicas=2", "data.size=64", "--steps", 3, "--out", out,
        "--quiet")
    run(program, "export", out, "--safetensors", file)
    model = torchvision.models.resnet18(num_classes=classes)
    weights = load_file(file)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    # PyTorch counts batches; Podium does not.
    assert all(name.endswith("num_batches_tracked") for name in missing) and not unexpected, (missing, unexpected)
    print(f"resnet18: {len(weights)} tensors in torchvision {torchvision.__version__}")


def main():
    book, photos = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    program = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else "build/podium").resolve()
    with tempfile.TemporaryDirectory() as folder:
        check_language_models(program, book, pathlib.Path(folder))
        check_resnet(program, photos, pathlib.Path(folder))


if __name__ == "__main__":
    main()
