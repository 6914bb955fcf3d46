"""A trained network that predicts."""

import codecs

import numpy as np

from podium._data import array_of
from podium.lib import _podium


class Predictor:
    """The network of a run's checkpoint. `run` is its folder."""

    def __init__(self, run, step="", *, workers=0, threads=1, backend=""):
        self._network = _podium.load_predictor(_podium.local_path(str(run)), str(step), workers, threads, backend)
        self.step = self._network.step
        self.fields = self._network.fields
        self._target = next((field for field in self.fields if field["target"]), None)

    @property
    def recipe(self):
        """The run's recipe with every key, as TOML."""
        return self._network.recipe

    @property
    def classes(self):
        """The names of the target's classes, or their numbers; none where it is no class."""
        if self._target is None or not self._target["below"]:
            return []
        return self._target["words"] or [str(number) for number in range(self._target["below"])]

    def predict(self, data):
        """The network's first output, float32, a row for each example: logits of classes, or the prediction.

        Of a run on images, `data` are uint8 [n, channels, height, width]; on a table, a dictionary of its columns;
        on sentences, a list of texts; on other data, an array or a dictionary of arrays by field.
        """
        kind = self._network.kind_of_data
        if kind == "table":
            return self._predict_table(data)
        if kind == "sentences":
            return self._network.predict_texts([str(text) for text in data])
        if kind != "arrays":
            raise TypeError(f"a run on {kind} predicts files: podium predict RUN FILE --json")
        inputs = [field for field in self.fields if not field["target"] and field["name"] != "weights"]
        if not isinstance(data, dict):
            if len(inputs) != 1:
                raise TypeError(f"the network reads {[field['name'] for field in inputs]}; give a dictionary of these")
            data = {inputs[0]["name"]: data}
        if [field["name"] for field in inputs] == ["images"] and np.asarray(data["images"]).dtype == np.uint8:
            pixels = np.require(data["images"], np.uint8, ["C"])
            labels = np.zeros(len(pixels), np.int32)  # nobody reads them
            return self._network.predict(_podium.images_of_arrays(pixels, labels, self._target["below"], []))
        arrays = {}
        for field in inputs:
            if field["name"] not in data:
                raise ValueError(f"the network reads \"{field['name']}\", and there is none in {list(data)}")
            array = array_of(field["name"], data[field["name"]], field["dtype"])
            if list(array.shape[1:]) != list(field["shape"]):
                raise ValueError(
                    f"\"{field['name']}\" is {list(array.shape[1:])} of each row, and the network reads "
                    f"{list(field['shape'])}"
                )
            arrays[field["name"]] = array
        return self._network.predict(
            _podium.fields_of_arrays(
                list(arrays),
                list(arrays.values()),
                [field["below"] for field in inputs],
                [[] for _ in inputs],
                "",
            )
        )

    def _predict_table(self, columns):
        columns = {name: list(values) for name, values in columns.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"the columns have {sorted(lengths)} rows; give as many in each")
        cells = [_cell(value) for row in zip(*columns.values()) for value in row]
        return self._network.predict_table(list(columns), cells, lengths.pop())

    def predict_classes(self, data):
        """The number of the most probable class of each example."""
        return np.argmax(self.predict(data), axis=1)

    def probabilities(self, data):
        """The share of each class, float64, a row for each example."""
        logits = self.predict(data).astype(np.float64)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def generate(self, prompt, tokens=500, *, temperature=1.0, top_k=0, seed=0, on_text=None):
        """Text that follows the prompt, of a run on text: the same on every device. `on_text` gets it as it comes."""
        decoder, parts = codecs.getincrementaldecoder("utf-8")("replace"), []

        def add(text):
            if text:
                parts.append(text)
                if on_text is not None:
                    on_text(text)

        self._network.generate(prompt, tokens, temperature, top_k, seed, lambda some: add(decoder.decode(some)))
        add(decoder.decode(b"", True))
        return "".join(parts)

    def translate(self, texts, *, beam=5):
        """The translations of sentences, of a run on pairs."""
        return self._network.translate([str(text) for text in texts], beam)


def _cell(value):
    """A value as a table's text, which reads back to the same number."""
    if hasattr(value, "item"):
        value = value.item()
    return repr(value) if isinstance(value, float) else str(value)
