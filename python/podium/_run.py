"""The folder of a run: curves, hashes and networks."""

import json
from pathlib import Path

import numpy as np

from podium._predictor import Predictor
from podium.lib import _podium


class Run:
    """A run that was trained now (`podium.train`) or before, also by the command (`podium.load`).

    Of one that was trained now: steps, total_steps, epochs, train_loss, evaluation (a dictionary, or None),
    best_step, parameter_hash, train_seconds, peak_memory_bytes.
    """

    def __init__(self, folder, result=None):
        self.folder = Path(folder)
        for name, value in (result or {}).items():
            setattr(self, name, value)

    def __repr__(self):
        return f"<podium.Run {str(self.folder)!r}>"

    @property
    def recipe(self):
        """The recipe with every key, as TOML."""
        return (self.folder / "recipe.toml").read_text(encoding="utf-8")

    def _lines(self, file):
        lines = []
        for text in (self.folder / file).read_text(encoding="utf-8").splitlines(keepends=True):
            # A run that goes on may be writing the last line.
            if text.endswith("\n"):
                lines.append(json.loads(text))
        return lines

    def _columns(self, lines):
        names = dict.fromkeys(name for line in lines for name, value in line.items() if _is_number(value))
        return {
            name: np.array([_number(line.get(name)) for line in lines], np.int64 if name == "step" else np.float64)
            for name in names
        }

    def metrics(self):
        """The curves of training: arrays by name, a value for each point; "step" is among them."""
        return self._columns([line for line in self._lines("metrics.jsonl") if not _is_evaluation(line)])

    def evaluations(self):
        """The evaluations, likewise."""
        return self._columns([line for line in self._lines("metrics.jsonl") if _is_evaluation(line)])

    def hashes(self):
        """The steps, and the hash of all parameters after each, as unsigned 64-bit integers. Two runs of one recipe
        have the same, wherever they ran."""
        lines = self._lines("hashes.jsonl")
        steps = np.array([line["step"] for line in lines], np.int64)
        return steps, np.array([int(line["hash"], 16) for line in lines], np.uint64)

    def predictor(self, step="", *, workers=0, threads=1, backend=""):
        """The network of the last checkpoint, or of `step`: a number, or "best"."""
        return Predictor(self.folder, step, workers=workers, threads=threads, backend=backend)


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value):
    return value if _is_number(value) else np.nan


def _is_evaluation(line):
    return any(name.startswith("test_") for name in line)


def load(folder):
    """The run in a folder, or in a store: s3://BUCKET/KEY, of which a copy is made."""
    folder = Path(_podium.local_path(str(folder)))
    if not (folder / "recipe.toml").exists():
        raise FileNotFoundError(f"{folder}: there is no run (no recipe.toml); `podium train` writes one")
    return Run(folder)
