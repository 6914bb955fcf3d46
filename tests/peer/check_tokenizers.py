#!/usr/bin/env python3
"""Compares Podium's byte-pair encoding with tiktoken's and Hugging Face's, line by line.

    tests/peer/check_tokenizers.py build/podium GPT2_FOLDER [--lines 1000000]

GPT2_FOLDER has encoder.json and vocab.bpe. Needs tiktoken, tokenizers and numpy. The lines are drawn: words, numbers, runs
of blanks, emoji, control characters, every plane of Unicode, and bytes that are not UTF-8, of which the peers know none: each
run of such bytes is encoded by itself, as docs/sequences.md says.
"""
import argparse
import json
import os
import random
import subprocess
import tempfile

import numpy as np
import tiktoken
import tokenizers
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
WORDS = "the of and to Podium trains isn't we'll 3.14 2026 naïve Straße слово 你好 世界 ありがとう مرحبا हिन्दी e\u0301".split()


def draw_line(random_):
    parts = []
    for _ in range(random_.randrange(1, 12)):
        kind = random_.randrange(9)
        if kind < 3:
            parts.append(random_.choice(WORDS) + random_.choice(["", " ", "  ", "\t", "'s ", ", "]))
        elif kind == 3:
            parts.append(str(random_.randrange(10 ** random_.randrange(1, 12))))
        elif kind == 4:
            parts.append(random_.choice(" \t\u00a0\u2003\u3000\x0b\x0c\x85\x1c\r\u180e") * random_.randrange(1, 6))
        elif kind == 5:
            parts.append(chr(random_.choice([0x1F600, 0x1F468, 0x200D, 0xFE0F, 0x1F3FD]) + random_.randrange(3)))
        elif kind == 6:
            parts.append("".join(chr(random_.randrange(32)) for _ in range(3)).replace("\n", ""))
        elif kind == 7:
            code = random_.randrange(0x20, 0x30000)
            parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "?")
        else:
            parts.append("".join(random_.choice("abcXYZ!?#-_/\\\"{}()") for _ in range(random_.randrange(1, 20))))
    return "".join(parts).replace("\n", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("podium")
    parser.add_argument("folder")
    parser.add_argument("--lines", type=int, default=1_000_000)
    arguments = parser.parse_args()
    encoder, merges = (os.path.join(arguments.folder, name) for name in ("encoder.json", "vocab.bpe"))
    ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe_file=merges, encoder_json_file=encoder)
    peer = tiktoken.Encoding("gpt2-here", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    random_ = random.Random(1)
    lines = [draw_line(random_) for _ in range(arguments.lines)]
    with tempfile.TemporaryDirectory() as scratch:
        # Hugging Face's file of the same vocabulary, which Podium reads, too.
        hugging = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(encoder, merges))
        hugging.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        hugging.save(os.path.join(scratch, "tokenizer.json"))

        def ours(tokenizer, name, texts):
            path = os.path.join(scratch, name + ".jsonl")
            with open(path, "w", encoding="utf-8") as file:
                for text in texts:
                    file.write(json.dumps({"text": text}) + "\n")
            out = os.path.join(scratch, name)
            subprocess.run([arguments.podium, "data", "tokenize", path, "--tokenizer", tokenizer, "--out", out,
                            "--held-out", "0"], check=True, stdout=subprocess.DEVNULL)
            shards = sorted(n for n in os.listdir(out) if n.endswith(".npy"))
            return np.concatenate([np.load(os.path.join(out, shard)) for shard in shards]).tolist()

        def split(tokens):
            found, line = [], []
            for token in tokens:
                if token == 50256:
                    found.append(line)
                    line = []
                else:
                    line.append(token)
            return found

        ours_lines = split(ours(arguments.folder, "gpt2", lines))
        assert len(ours_lines) == len(lines), (len(ours_lines), len(lines))
        differing = 0
        for line, mine in zip(lines, ours_lines):
            theirs = peer.encode_ordinary(line)
            if theirs != mine:
                differing += 1
                if differing <= 5:
                    print("differs:", repr(line), mine, theirs)
        print(f"{len(lines)} lines, {sum(map(len, ours_lines))} tokens: {differing} differ from tiktoken's")
        mine = split(ours(os.path.join(scratch, "tokenizer.json"), "hugging", lines[:100_000]))
        other = sum(hugging.encode(line).ids != tokens for line, tokens in zip(lines, mine))
        print(f"{len(mine)} lines: {other} differ from those of tokenizers")

        # Bytes that are not UTF-8: a run of them by itself.
        raw = bytearray()
        expected = []
        for _ in range(20_000):
            text = draw_line(random_)
            bad = bytes(random_.randrange(0x80, 0xC0) for _ in range(random_.randrange(1, 4)))
            raw += text.encode() + bad
            expected += peer.encode_ordinary(text) + peer._encode_single_piece(bad)
        path = os.path.join(scratch, "raw.txt")
        with open(path, "wb") as file:
            file.write(raw)
        out = os.path.join(scratch, "raw")
        subprocess.run([arguments.podium, "data", "tokenize", path, "--tokenizer", arguments.folder, "--out", out,
                        "--held-out", "0"], check=True, stdout=subprocess.DEVNULL)
        same = np.load(os.path.join(out, "train_00000.npy")).tolist() == expected
        print(f"20000 lines with bytes that are not UTF-8: {'equal' if same else 'DIFFERENT'}")
        return 0 if differing == 0 and other == 0 and same else 1


if __name__ == "__main__":
    raise SystemExit(main())
