#!/usr/bin/env python3
"""Trains small networks of every kind for a few steps, has `podium export --onnx` write them, checks the files with onnx, and compares
what onnxruntime computes with Podium's own logits and predictions:

    python3 tests/peer/check_onnx.py build/podium [NAME...]

Needs onnx, onnxruntime, numpy, safetensors and Pillow; exits 77 where they are missing, so that ctest calls the test skipped. Exits 1
where a value differs by more than a limit, as a share of the largest.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import wave

try:
    import numpy as np
    import onnx
    import onnxruntime
    from PIL import Image
    from safetensors.numpy import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Podium makes convolutions of 3x3 by Winograd's algorithm, whose sums are less exact than plain ones (docs/numerics.md): what XLA's plugin
# computes of the same networks lies within 2e-6 of onnxruntime.
LIMIT, WINOGRAD_LIMIT, STEPS = 1e-5, 5e-5, 5
REST = f"batch = 8\nreplicas = 2\nsteps = {STEPS}\n[optimizer]\nname = \"adam\"\nlearning_rate = 1e-2\n"
TEXT = 'name = "text"\npath = "drawn.txt"\ntokenizer = "chars"\ncontext = 24\n'
SMALL = "layers = 2\nwidth = 16\n"
# Networks whose logits `podium inspect` writes, without dropout: model, [network], [data].
INSPECTED = {
    "gpt": ("gpt", SMALL + "heads = 4\n", TEXT),
    "gpt-tanh": ("gpt", SMALL + 'heads = 4\ngelu_tanh = true\nbias = true\n', TEXT),
    "llama": ("llama", SMALL + "heads = 4\ngroups = 2\n", TEXT),
    "lstm": ("lstm", SMALL, TEXT + 'order = "streams"\n'),
    "gru": ("gru", SMALL, TEXT + 'order = "streams"\n'),
    "transformer": ("transformer", SMALL + "heads = 4\n", 'name = "pairs"\npath = "drawn.tsv"\ntokenizer = "words"\ncontext = 9\n'),
    "text-cnn": ("text-cnn", "width = 16\nhidden = 8\n", 'name = "sentences"\npath = "drawn.csv"\ntokenizer = "words"\ncontext = 12\n'),
    "bilstm": ("bilstm", SMALL, 'name = "sounds"\npath = "sounds"\nrate = 4000\nmels = 9\ncontext = 16\n'),
    "bigru": ("bigru", SMALL, 'name = "sounds"\npath = "sounds"\nrate = 4000\nmels = 9\ncontext = 16\n'),
    "perceptron": ("perceptron", SMALL, 'name = "table"\npath = "numbers.csv"\ntarget = "price"\n'),
}
# Networks of pictures, by `podium predict`: recipe, its overrides, the shape of a picture.
PICTURES = {
    "mnist": ("mnist", ["data=glyphs", "train_examples=480", "test_examples=32"], (28, 28)),
    "sprint": ("cifar10-sprint", ["validation=16", "batch=96"], (32, 32, 3)),
    "davidnet": ("cifar10-davidnet", ["validation=16", "batch=96"], (32, 32, 3)),
    "resnet32": ("cifar10-resnet32", ["validation=16", "batch=96"], (32, 32, 3)),
}


def draw_files():
    draw = random.Random(1)
    with open("drawn.txt", "w", encoding="utf-8") as file:
        file.write("".join(draw.choice(["ka", "lo", "mü", "tu", " ", "\n"]) for _ in range(3000)))
    words = lambda most: " ".join(draw.choice("abcdefgh") for _ in range(draw.randint(1, most)))
    with open("drawn.tsv", "w") as file:
        file.write("text\tother\n" + "".join(f"{words(7)}\t{words(8)}\n" for _ in range(200)))
    with open("drawn.csv", "w") as file:
        file.write("text,label\n" + "".join(f"{words(11)},{draw.choice(['good', 'bad'])}\n" for _ in range(200)))
    with open("numbers.csv", "w") as file:
        rows = [(draw.random(), 100 * draw.random()) for _ in range(200)]
        file.write("one,other,price\n" + "".join(f"{a:.4f},{b:.4f},{50 * a - b:.4f}\n" for a, b in rows))
    for label in ("high", "low"):
        for i in range(40):
            os.makedirs(f"sounds/{label}", exist_ok=True)
            count, pitch = draw.randint(500, 650), 0.9 if label == "high" else 0.3
            samples = 8000 * np.sin(pitch * np.arange(count)) + draw.randint(1, 1000)
            with wave.open(f"sounds/{label}/{i}.wav", "wb") as file:
                file.setnchannels(1), file.setsampwidth(2), file.setframerate(4000)
                file.writeframes(samples.astype("<i2").tobytes())


class Check:
    def __init__(self, podium):
        self.podium, self.failed = os.path.abspath(podium), False

    def run(self, *arguments):
        return subprocess.run([self.podium, *arguments], check=True, capture_output=True, text=True).stdout

    def export(self, name):
        self.run("export", f"run-{name}", "--onnx", f"{name}.onnx")
        onnx.checker.check_model(f"{name}.onnx", full_check=True)
        return f"{name}.onnx"

    def compare(self, name, ours, theirs, limit=LIMIT):
        error = np.abs(ours - theirs).max() / np.abs(ours).max()
        print(f"{name}: {len(ours)} rows, largest difference {error:.1e} of the largest value")
        if not error <= limit or ours.shape != theirs.shape:
            self.failed = True

    def inspected(self, name):
        model, network, data = INSPECTED[name]
        recipe = f'model = "{model}"\n{REST}[network]\n{network}dropout = 0\n[data]\n{data}'
        pathlib.Path(f"{name}.toml").write_text(recipe)
        self.run("train", f"{name}.toml", "--out", f"run-{name}", "--quiet")
        self.run("inspect", f"{name}.toml", f"steps={STEPS + 1}", "--step", str(STEPS + 1), "--out", f"{name}.safetensors")
        file, step = self.export(name), load_file(f"{name}.safetensors")
        # What inspect shows of numbers is normalised, which the file does itself.
        graph = onnx.load(file).graph
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        for value in graph.input:
            if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and value.name in step:
                mean, deviation = (next(constants[node.input[1]] for node in graph.node if node.op_type == op) for op in ("Sub", "Div"))
                step[value.name] = step[value.name] * deviation + mean
        session = onnxruntime.InferenceSession(file)
        fed = {}
        for value in session.get_inputs():
            if value.name in step:
                fed[value.name] = step[value.name].astype(np.int64 if "int64" in value.type else np.float32)
            else:  # carried, by replica: what the step begins with
                state = load_file(next(pathlib.Path(f"run-{name}/checkpoints").rglob("*.safetensors")))[value.name]
                fed[value.name] = state.reshape(-1, state.shape[-1])
        output = session.get_outputs()[0].name
        ours = step.get(output, step.get("logits"))
        theirs = session.run([output], fed)[0]
        if output == "prediction":  # in the unit of the data; inspect has it normalised
            mean, deviation = ours.mean(), ours.std()
            theirs = (theirs - theirs.mean()) / theirs.std() * deviation + mean
        self.compare(name, ours, theirs)

    def table(self):
        told = self.run("predict", "run-perceptron", "numbers.csv").splitlines()
        ours = np.array([[float(line.split(",")[-1])] for line in told[1:]])
        rows = np.loadtxt("numbers.csv", delimiter=",", skiprows=1, dtype=np.float32)[:, :2]
        session = onnxruntime.InferenceSession("perceptron.onnx")
        self.compare("perceptron, predictions", ours, session.run(["prediction"], {session.get_inputs()[0].name: rows})[0])

    def pictures(self, name):
        recipe, overrides, shape = PICTURES[name]
        self.run("train", recipe, *overrides, "epochs=0", f"steps={STEPS}", "schedule.warmup=0", "evaluation.views=1", "--out", f"run-{name}", "--quiet")
        pixels = np.random.default_rng(2).integers(0, 256, (1000, *shape), dtype=np.uint8)
        names = [f"{i}.png" for i in range(len(pixels))]
        for path, image in zip(names, pixels):
            Image.fromarray(image).save(path)
        told = json.loads(self.run("predict", f"run-{name}", *names, "--json"))
        session = onnxruntime.InferenceSession(self.export(name))
        batch = pixels[:, None] if len(shape) == 2 else pixels.transpose(0, 3, 1, 2)
        self.compare(name, np.array([image["logits"] for image in told]), session.run(["logits"], {"images": batch})[0], WINOGRAD_LIMIT)


def main():
    check, names = Check(sys.argv[1]), sys.argv[2:]
    if "PODIUM_DATA" in os.environ:
        os.environ["PODIUM_DATA"] = os.path.abspath(os.environ["PODIUM_DATA"])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        draw_files()
        for name in names or [*INSPECTED, *PICTURES]:
            try:
                (check.pictures if name in PICTURES else check.inspected)(name)
            except subprocess.CalledProcessError as error:
                if "podium data fetch" in error.stderr:
                    print(f"{name}: skipped, its data are not here")
                    continue
                print(f"{name}: {error.stderr}")
                check.failed = True
            if name == "perceptron":
                check.table()
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
