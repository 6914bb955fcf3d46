"""Recipes: names, files, and dictionaries of keys."""

import json
import math

from podium.lib import _podium


def _toml(value):
    """A value as TOML writes it. NumPy's scalars and arrays are values, too."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # "inf", "-inf" and "nan" are TOML's spelling
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    if isinstance(value, (bool, int, float, str)):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"a recipe's value is text, a number, true or false, or a list of these, not {value!r}")


def changes_of(keys, table=""):
    """The keys of a dictionary as KEY=VALUE. Tables may be dictionaries or dotted names; an array of
    tables, such as optimizer.group, is a list of dictionaries."""
    changes = []
    for name, value in keys.items():
        path = table + name
        if isinstance(value, dict):
            changes += changes_of(value, path + ".")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(one, dict) for one in value):
            for number, one in enumerate(value, 1):
                changes += changes_of(one, f"{path}.{number}.")
        else:
            changes.append(f"{path}={_toml(value)}")
    return changes


def resolve(recipe, changes=None, data_dir=""):
    """The name of a recipe, its seed, and its text with every key."""
    if isinstance(recipe, dict):
        # An empty recipe, which these keys change.
        return _podium.resolved_recipe("recipe", "\n", changes_of({**recipe, **(changes or {})}), str(data_dir))
    return _podium.resolved_recipe(str(recipe), "", changes_of(changes or {}), str(data_dir))


def resolved_recipe(recipe, changes=None, *, data_dir=""):
    """The recipe with every key, as TOML. Raises podium.Error, which names all keys that are wrong."""
    return resolve(recipe, changes, data_dir)[2]
