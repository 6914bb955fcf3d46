"""What the Python package does, by its behaviour. Run by ctest, with PODIUM_PROGRAM: the command of the same build."""

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import numpy as np

import podium

PERCEPTRON = {
    "name": "own",
    "model": "perceptron",
    "batch": 32,
    "replicas": 2,
    "epochs": 2,
    "network": {"width": 16},
    "optimizer": {"name": "adam", "learning_rate": 0.01},
}


def rows(count, seed):
    x = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    return x, x[:, 0] * x[:, 1] + x[:, 2]


def command(*words):
    program = os.environ.get("PODIUM_PROGRAM")
    if not program:
        raise unittest.SkipTest("PODIUM_PROGRAM names no command")
    return subprocess.run([program, *words], check=True, capture_output=True).stdout.decode(errors="replace")


class InFolder(unittest.TestCase):
    """Works in a folder of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def train(self, *words, out="run", **named):
        return podium.train(*words, out=self.folder / out, progress=False, **named)


class TrainsRecipes(InFolder):
    def test_computes_what_the_command_computes(self):
        run = self.train("glyphs", {"train_examples": 512, "test_examples": 64, "epochs": 1}, workers=2)
        command("train", "glyphs", "train_examples=512", "test_examples=64", "epochs=1", "--quiet",
                "--out", str(self.folder / "theirs"))
        theirs = podium.load(self.folder / "theirs")
        np.testing.assert_array_equal(run.hashes(), theirs.hashes())
        self.assertEqual(run.recipe, theirs.recipe)
        self.assertEqual(run.hashes()[1][-1], int(run.parameter_hash, 16))

    def test_takes_a_dictionary_for_a_file(self):
        toml = podium.resolved_recipe(
            {"name": "mine", "model": "mnist", "data": "glyphs", "epochs": 1, "batch": np.int64(64),
             "optimizer": {"name": "sgd", "learning_rate": 0.5,
                           "group": [{"parameters": ["*.bias"], "frozen": True}]}},
            {"seed": 7},
        )
        for line in ('name = "mine"', "seed = 7", "batch = 64", "learning_rate = 0.5", 'parameters = ["*.bias"]'):
            self.assertIn(line, toml)

    def test_says_what_is_wrong_with_a_recipe(self):
        with self.assertRaises(podium.Error) as raised:
            podium.resolved_recipe("mnist", {"sed": 3, "epochs": -1})
        self.assertIn("`sed=3`: unknown key `sed`; the nearest known one is `seed`", str(raised.exception))
        self.assertIn("epochs", str(raised.exception))
        self.assertEqual(raised.exception.code, 2)
        with self.assertRaisesRegex(TypeError, "a recipe's value"):
            podium.resolved_recipe("mnist", {"seed": None})

    def test_returns_curves_as_arrays(self):
        points, evaluations = [], []
        run = self.train(
            "glyphs", {"train_examples": 512, "test_examples": 64, "epochs": 2, "run.log_every_steps": 1},
            on_metrics=points.append, on_evaluation=evaluations.append,
        )
        curves = run.metrics()
        np.testing.assert_array_equal(curves["step"], np.arange(1, run.steps + 1))
        np.testing.assert_array_equal(curves["loss"], [point["loss"] for point in points])
        np.testing.assert_array_equal(run.evaluations()["test_loss"], [one["loss"] for one in evaluations])
        self.assertEqual(evaluations[-1], run.evaluation)

    def test_warns_by_warnings(self):
        self.train("glyphs", {"train_examples": 512, "test_examples": 64, "epochs": 1})
        with open(self.folder / "run" / "hashes.jsonl", "r+") as lines:
            lines.write("x")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.train("glyphs", {"train_examples": 512, "test_examples": 64, "epochs": 1})
        self.assertTrue(any("hashes.jsonl" in str(one.message) for one in caught), caught)


class TrainsArrays(InFolder):
    def test_gives_equal_bits_on_any_number_of_workers(self):
        data = (rows(256, 0), rows(64, 1))
        one = self.train(PERCEPTRON, data=data, workers=1)
        two = self.train(PERCEPTRON, data=data, workers=2, threads=2, out="two")
        np.testing.assert_array_equal(one.hashes(), two.hashes())
        self.assertLess(one.evaluation["mean_squared_error"], 2)

    def test_computes_on_arrays_what_it_computes_on_the_files(self):
        folder = Path(os.environ.get("PODIUM_DATA") or "../shared/data") / "mnist"
        if not folder.exists():
            self.skipTest("needs mnist/ in PODIUM_DATA")

        def read(part):
            with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
                images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
            with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
                return images, np.frombuffer(file.read(), np.uint8, offset=8)

        arrays = self.train("mnist", data=(read("train"), read("t10k")), steps=20)
        files = self.train("mnist", data_dir=folder.parent, steps=20, out="files")
        np.testing.assert_array_equal(arrays.hashes(), files.hashes())

    def test_reads_fields_by_name_and_converts_other_types(self):
        x, y = rows(256, 0)
        kind = (y > 0).astype(np.int64)
        fields = {"features": x.astype(np.float64), "weights": np.ones(256, np.int8), "kind": kind}
        run = self.train(PERCEPTRON, {"epochs": 20}, data=(fields, fields), class_names=["below", "above"])
        self.assertGreater(run.evaluation["accuracy"], 0.8)
        predictor = run.predictor()
        self.assertEqual(predictor.classes, ["below", "above"])
        self.assertEqual(predictor.predict_classes(x).shape, (256,))
        np.testing.assert_allclose(predictor.probabilities({"features": x}).sum(axis=1), 1)

    def test_does_not_copy_what_has_the_right_type(self):
        from podium._data import array_of, natural

        x, _ = rows(16, 0)
        self.assertTrue(np.shares_memory(natural("x", x), x))
        self.assertTrue(np.shares_memory(array_of("x", x, "float32"), x))
        predictor = self.train(PERCEPTRON, data=(rows(64, 0), rows(64, 1))).predictor()
        self.assertFalse(predictor.predict(x).flags.owndata)  # it is the tensor's memory

    def test_keeps_what_it_reads_alive(self):
        predictor = self.train(PERCEPTRON, data=(rows(64, 0), rows(64, 1))).predictor()
        first = predictor.predict(rows(5000, 3)[0])
        again = predictor.predict(rows(5000, 3)[0])
        np.testing.assert_array_equal(first, again)

    def test_refuses_what_it_cannot_train_on(self):
        x, y = rows(64, 0)
        good = (x, y)
        worst = x.copy()
        worst[5, 1] = np.nan
        for data, error, text in [
            ((good, (x, y[:10])), podium.Error, '"target" has 10 rows, and "features" has 64'),
            (((worst, y), good), podium.Error, 'field "features", row 5 .counted from 0.: nan'),
            ((good, {"features": x}), ValueError, "the held-out set .'features'."),
            (good, TypeError, "each a pair of arrays"),
            (((np.array(["a"] * 64), y), good), TypeError, "give numbers"),
            (((x, np.full(64, 2**40)), good), ValueError, "do not fit into 32 bits"),
            (({"images": x, "labels": y},) * 2, TypeError, "images are uint8"),
            (({"x": x, "y": y},) * 2, podium.Error, '"features"'),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.train(PERCEPTRON, data=data, out=text[:5])
        with self.assertRaisesRegex(ValueError, "price"):
            self.train(PERCEPTRON, data=(good, good), target="price")


class StopsAndGoesOn(InFolder):
    def test_stops_at_ctrl_c_as_the_command_does(self):
        program = (
            "import os, signal, podium\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "def stop(point):\n"
            "    if point['step'] == 3: os.kill(os.getpid(), signal.SIGINT)\n"
            "podium.train('glyphs', {'train_examples': 2048, 'test_examples': 64, 'epochs': 1, 'run.log_every_steps': 1},\n"
            f"             out={str(self.folder / 'run')!r}, on_metrics=stop)\n"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertIn("KeyboardInterrupt", ended.stderr)
        self.assertIn("stopping: the run saves after the current step", ended.stderr)
        keys = {"train_examples": 2048, "test_examples": 64, "epochs": 1, "run.log_every_steps": 1}
        went_on = self.train("glyphs", keys)
        whole = self.train("glyphs", keys, out="whole")
        np.testing.assert_array_equal(went_on.hashes(), whole.hashes())
        self.assertLess(went_on.train_seconds, whole.train_seconds * 10)

    def test_leaves_the_handlers_as_they_were(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        self.train(PERCEPTRON, data=(rows(64, 0), rows(64, 1)))
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        with self.assertRaises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    def test_ends_with_the_exception_of_a_callback_and_goes_on(self):
        data = (rows(256, 0), rows(64, 1))
        keys = {"run.checkpoint_every_steps": 2}

        def fail(evaluation):
            raise LookupError(f"at step {evaluation['step']}")

        with self.assertRaisesRegex(LookupError, "at step 8"):
            self.train(PERCEPTRON, keys, data=data, on_evaluation=fail)
        whole = self.train(PERCEPTRON, keys, data=data, out="whole")
        np.testing.assert_array_equal(self.train(PERCEPTRON, keys, data=data).hashes(), whole.hashes())

    def test_ends_early_where_an_evaluation_says_so(self):
        run = self.train(PERCEPTRON, data=(rows(256, 0), rows(64, 1)), on_evaluation=lambda _: True)
        self.assertEqual((run.steps, run.total_steps), (8, 16))

    def test_lets_other_threads_run(self):
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
                done.wait(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        self.train("glyphs", {"train_examples": 2048, "test_examples": 64, "epochs": 1})
        during = counted[0] - before
        done.set()
        thread.join()
        self.assertGreater(during, 10)

    def test_trains_in_a_thread(self):
        hashes = []
        data = (rows(64, 0), rows(64, 1))
        thread = threading.Thread(target=lambda: hashes.append(self.train(PERCEPTRON, data=data).parameter_hash))
        thread.start()
        thread.join()
        self.assertEqual(hashes, [self.train(PERCEPTRON, data=data, out="main").parameter_hash])


class Predicts(InFolder):
    def test_predicts_the_columns_of_a_table_as_the_command_does(self):
        table = self.folder / "flowers.csv"
        x, y = rows(120, 0)
        kinds = np.where(x[:, 2] > 0, "wide", "thin")
        names = np.where(y > 0, "iris", "rose")
        lines = [f"{a!r},{b!r},{k},{n}" for a, b, k, n in zip(x[:, 0].tolist(), x[:, 1].tolist(), kinds, names)]
        table.write_text("\n".join(["long,short,kind,name", *lines]) + "\n")
        run = self.train(f"table:{table}", {"target": "name", "epochs": 2, "batch": 20, "replicas": 1})
        logits = run.predictor().predict({"long": x[:, 0], "short": x[:, 1], "kind": kinds})
        answers = command("predict", str(run.folder), str(table)).splitlines()[1:]
        classes = run.predictor().classes
        self.assertEqual([classes[i] for i in logits.argmax(axis=1)], [line.split(",")[-2] for line in answers])
        with self.assertRaisesRegex(podium.Error, '"short"'):
            run.predictor().predict({"long": x[:, 0], "kind": kinds})

    def test_generates_what_the_command_generates(self):
        text = self.folder / "text.txt"
        text.write_text("To be, or not to be, that is the question. Ein Mädchen – naïve.\n" * 40)
        run = self.train(
            f"text:{text}", {"steps": 4, "batch": 4, "replicas": 1, "data.context": 16, "network.width": 16,
                             "network.heads": 2, "network.layers": 1},
        )
        parts = []
        ours = run.predictor().generate("To be", 30, seed=3, on_text=parts.append)
        theirs = command("generate", str(run.folder), "--prompt", "To be", "--tokens", "30", "--seed", "3")
        self.assertEqual("".join(parts), ours)
        self.assertIn(ours, theirs)
        with self.assertRaisesRegex(TypeError, "podium predict"):
            run.predictor().predict(["To be"])

    def test_names_a_folder_without_a_run(self):
        with self.assertRaisesRegex(FileNotFoundError, "there is no run"):
            podium.load(self.folder)


class CarriesTheCommand(unittest.TestCase):
    def test_knows_the_recipes_of_the_installation(self):
        self.assertIn("glyphs", podium.recipe_names())

    def test_states_one_version(self):
        self.assertIn(podium.__version__, command("--version"))


if __name__ == "__main__":
    unittest.main()
