#!/usr/bin/env python3
"""Gives podium random command lines: flags, values and overrides that make little sense.

    scripts/fuzz-commands.py [--seconds 600] [--seed 1] [--program build/podium]

No command line may end in an internal error, a signal, or another exit code than those of docs/runs.md,
and none may take longer than 60 seconds. What does is printed with its seed, and the exit status is 1.
Nothing is trained for more than two steps.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

KNOWN_CODES = {0, 2, 3, 4, 5, 75}
NUMBERS = ["0", "-0", "1", "-1", "2", "3", "7", "64", "255", "256", "65536", "1000000", "2147483647", "2147483648",
           "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
           "18446744073709551616", "0.5", "-0.0", "1e-300", "1e300", "1e400", "-1e308", "nan", "-nan", "inf", "-inf",
           "0x10", "1_000", "1,5", "+1", " 1", "1 ", "", "true", "false", "[]", "[1]", "{}", '"x"', "1e", "--", "-"]
WORDS = ["mnist", "glyphs", "cifar10", "sprint", "davidnet", "sgd", "adam", "lars", "muon", "fp32", "bf16", "tf32", "cpu",
         "cuda", "pjrt", "reference", "best", "last", "train", "test", "loss", "accuracy", "x", "é", "a\tb", "a\nb", "\x1b[31m",
         "a" * 300, "../..", "/", ".", "/dev/null", "/dev/full", "bytes", "chars", "words", "words.txt", "rows.csv", "text:words.txt", "folder:/", "folder:", "tar:x", "*", "%s%n", "'", '"', "\\"]
COMMANDS = [["show"], ["plan"], ["compare"], ["report"], ["eval"], ["predict"], ["diff"], ["verify"], ["seal"], ["export"], ["inspect"], ["band"], ["devices"],
            ["recipes"], ["prices"], ["data"], ["data", "show"], ["bench", "recipe"], ["bench", "exchange"], ["bench", "data"],
            ["bench", "op"], ["train"], ["generate"], ["data", "tokenize"], ["man"], ["completion"], ["plugin"], []]
RECIPES = ["mnist", "glyphs", "cifar10-sprint", "cifar10-davidnet", "pictures", "text:words.txt", "table:rows.csv", "sentences:rows.csv", "nothing"]
SMALL = ["steps=2", "epochs=0", "train_examples=64", "test_examples=16", "batch=16"]


def help_of(program, command):
    text = subprocess.run([program, *command, "--help"], capture_output=True, text=True, timeout=60).stdout
    return sorted({word.strip(",=") for word in text.split() if word.startswith("--") and len(word) > 2})


def keys_of(program):
    keys, table = [], ""
    for recipe in ["mnist", "text:words.txt", "table:rows.csv"]:
        text = subprocess.run([program, "show", recipe, "--all"], capture_output=True, text=True, timeout=60).stdout
        for line in text.splitlines():
            if line.startswith("[") and line.endswith("]"):
                table = line[1:-1] + "."
            elif " = " in line:
                keys.append(table + line.split(" = ")[0])
    return keys or ["batch", "replicas", "steps", "optimizer.learning_rate"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default="build/podium")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    flags = {" ".join(command): help_of(program, command) for command in COMMANDS}
    start, count, failed = time.time(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        run, text_run = os.path.join(folder, "run"), os.path.join(folder, "text-run")
        with open(os.path.join(folder, "words.txt"), "w", encoding="utf-8") as file:
            file.write("the sea the sea\n" * 200)
        with open(os.path.join(folder, "rows.csv"), "w", encoding="utf-8") as file:
            file.write("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(200)))
        os.chdir(folder)
        keys = keys_of(program)
        subprocess.run([program, "train", "text:words.txt", "--out", text_run, "network.layers=1", "network.width=16",
                        "network.heads=2", "data.context=8", "steps=2", "batch=8", "replicas=2"], cwd=folder, capture_output=True,
                       timeout=300)
        subprocess.run([program, "train", "glyphs", "--out", run, *SMALL], cwd=folder, capture_output=True, timeout=300)
        while time.time() - start < arguments.seconds:
            seed = arguments.seed * 1_000_000 + count
            draw = random.Random(seed)
            command = draw.choice(COMMANDS)
            words = list(command)
            value = lambda: draw.choice(NUMBERS if draw.random() < 0.7 else WORDS)
            if command[:1] in (["show"], ["plan"], ["train"], ["band"], ["bench"], ["inspect"]) and draw.random() < 0.9:
                words.append(draw.choice(RECIPES))
                if command[0] != "show" and draw.random() < 0.9:
                    words += SMALL
            elif draw.random() < 0.8:
                words += [draw.choice([run, text_run, "words.txt", "nothing"]) for _ in range(draw.randint(1, 2))]
            for _ in range(draw.randint(0, 3)):
                kind = draw.random()
                if kind < 0.6 and flags[" ".join(command)]:
                    flag = draw.choice(flags[" ".join(command)])
                    words += [flag] if draw.random() < 0.15 else [f"{flag}={value()}"] if draw.random() < 0.5 else [flag, value()]
                elif kind < 0.9:
                    words.append(f"{draw.choice(keys)}={value()}")
                else:
                    words.append(value())
            # A run of its own folder, not longer than the two steps.
            if command == ["train"]:
                words += ["--out", os.path.join(folder, f"out-{count}"), "steps=2", "epochs=0"]
            words = [word.replace("\0", "") for word in words]
            count += 1
            try:
                done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, errors="replace",
                                      timeout=60, stdin=subprocess.DEVNULL)
                problem = None
                if command in (["diff"], ["verify"]) and done.returncode == 1:  # the runs differ
                    continue
                if done.returncode not in KNOWN_CODES:
                    problem = f"exit code {done.returncode}"
                elif "internal error" in done.stderr:
                    problem = "internal error"
                elif done.returncode != 0 and not done.stderr.strip():
                    problem = "no words"
                text = done.stderr
            except subprocess.TimeoutExpired:
                problem, text = "longer than 60 s", ""
            if problem:
                failed += 1
                print(f"seed {seed}: {problem}: podium {words!r}\n    {text.strip()[-500:]}", flush=True)
    print(f"{count} command lines, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
