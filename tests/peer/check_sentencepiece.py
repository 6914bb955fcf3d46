#!/usr/bin/env python3
"""Compares the tokens that Podium makes of lines by a model of SentencePiece with those of SentencePiece itself.

    python3 tests/peer/check_sentencepiece.py build/podium MODEL.model LINES.txt

Needs sentencepiece and numpy. Prints the number of lines and the first differences; exits with 1 if there is one.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import sentencepiece

END = 2


def main():
    podium, model, lines = sys.argv[1:4]
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    with open(lines, encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file]
    texts += ["  two   blanks  ", "tab\tand €, 漢字, \U0001f600", "", " "]
    with tempfile.TemporaryDirectory() as folder:
        documents = pathlib.Path(folder) / "lines.jsonl"
        documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        out = pathlib.Path(folder) / "tokens"
        subprocess.run(
            [podium, "data", "tokenize", documents, "--tokenizer", model, "--out", out], check=True, stdout=subprocess.DEVNULL
        )
        tokens = numpy.concatenate(
            [numpy.load(file) if file.suffix == ".npy" else numpy.fromfile(file, "<u2") for file in sorted(out.glob("*.npy"))]
        )
    ours, current = [], []
    for token in tokens:
        current.append(int(token))
        if token == END:
            ours.append(current)
            current = []
    theirs = [processor.encode(text) + [END] for text in texts]
    different = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    for i in different[:5]:
        print(f"line {i + 1}, {texts[i]!r}: {ours[i]} and {theirs[i]}")
    print(f"{len(texts)} lines, {sum(map(len, theirs))} tokens, {len(different)} lines differ; {len(ours)} of {len(theirs)} found")
    return 1 if different or len(ours) != len(theirs) else 0


if __name__ == "__main__":
    sys.exit(main())
