"""NumPy arrays as the examples of a run. Arrays of the right type are not copied."""

import numpy as np

from podium.lib import _podium

WEIGHTS = "weights"  # how much each row counts; never the target


def array_of(name, values, dtype):
    """As an array of this type, contiguous and aligned; the same one where it is that already."""
    array = np.asarray(values)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise TypeError(f'"{name}" has the type {array.dtype}; give numbers')
    if np.dtype(dtype).kind == "i":
        if array.dtype.kind == "f":
            raise TypeError(f'"{name}" has the type {array.dtype}; here it must be integers')
        if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
            raise ValueError(f'"{name}" has numbers that do not fit into 32 bits')
    return np.require(array, dtype, ["C", "A"])


def natural(name, values):
    """32-bit floats or integers, as the values are."""
    array = np.asarray(values)
    return array_of(name, array, np.float32 if array.dtype.kind == "f" else np.int32)


def _split(data):
    """The fields of a set, by name. A pair is one of images and labels, or of features and a target."""
    if isinstance(data, dict):
        return dict(data)
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError("data are (train, held_out), each a pair of arrays or a dictionary of arrays by name")
    values, target = data
    if np.asarray(values).dtype == np.uint8 and np.ndim(values) == 4:
        return {"images": values, "labels": target}
    return {"features": values, "target": target}


def _class_numbers(name, sets, words):
    """How many classes there are: as many as have names, else up to the largest number."""
    if words:
        return len(words)
    return 1 + max(int(np.max(one[name], initial=0)) for one in sets)


def own_data(data, target=None, class_names=None):
    """The two sets of `data` = (train, held_out) as _podium.Data, and the number of examples of each."""
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError("data are (train, held_out), each a pair of arrays or a dictionary of arrays by name")
    sets = [_split(one) for one in data]
    names = list(sets[0])
    if list(sets[1]) != names:
        raise ValueError(f"the training set has the fields {names}, and the held-out set {list(sets[1])}")
    if names == ["images", "labels"]:
        return _images(sets, class_names)
    if target is None:
        candidates = [name for name in names if name != WEIGHTS]
        target = candidates[-1] if len(candidates) > 1 else ""
    if target not in names:
        raise ValueError(f'target "{target}" is none of the fields {names}')
    arrays = [{name: natural(name, one[name]) for name in names} for one in sets]
    below, words = [], []
    for name in names:
        is_class = name == target and arrays[0][name].dtype == np.int32
        words.append([str(word) for word in class_names or []] if is_class else [])
        is_token = arrays[0][name].dtype == np.int32 and name != WEIGHTS
        below.append(_class_numbers(name, arrays, words[-1]) if is_token else 0)
    made = [_podium.fields_of_arrays(names, list(one.values()), below, words, target) for one in arrays]
    return made, [len(one) for one in made]


def _images(sets, class_names):
    words = [str(word) for word in class_names or []]
    arrays = []
    for one in sets:
        pixels = np.asarray(one["images"])
        if pixels.dtype != np.uint8 or pixels.ndim != 4:
            raise TypeError(
                f"images are uint8 [n, channels, height, width], not {pixels.dtype} {list(pixels.shape)}; "
                "for numbers that are no bytes, call the field otherwise, such as \"features\""
            )
        labels = array_of("labels", one["labels"], np.int32)
        if labels.ndim != 1:
            raise ValueError(f"labels are one number for each image, not an array {list(labels.shape)}")
        arrays.append({"images": np.require(pixels, np.uint8, ["C"]), "labels": labels})
    classes = _class_numbers("labels", arrays, words)
    made = [_podium.images_of_arrays(one["images"], one["labels"], classes, words) for one in arrays]
    return made, [len(one) for one in made]
