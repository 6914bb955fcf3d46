"""Podium trains neural networks. Devices change the speed of a run, never its result.

    import podium
    run = podium.train("mnist", {"epochs": 2})
    print(run.evaluation["accuracy"])

A recipe is a name (`podium.recipe_names()`), a TOML file, a file of data ("table:rows.csv"), or a
dictionary of the same keys. The command `podium`, which the package also brings, reads the runs
that Python makes, and the other way round.
"""

from podium.lib._podium import Error, __version__, recipe_names
from podium._predictor import Predictor
from podium._recipe import resolved_recipe
from podium._run import Run, load
from podium._train import train

__all__ = ["Error", "Predictor", "Run", "__version__", "load", "recipe_names", "resolved_recipe", "train"]
