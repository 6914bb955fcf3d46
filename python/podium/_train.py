"""Training."""

import signal
import sys
import threading
import warnings

from podium._data import own_data
from podium._recipe import resolve
from podium._run import Run
from podium.lib import _podium


def _line(kind, values):
    """Prints a point of the curves."""
    text = f"step {values['step']:>7,}  {kind:10}"
    for name, value in values.items():
        if name == "items_per_second":
            text += f"  {value:,.0f}/s"
        elif name not in ("step", "steps_per_second"):
            text += f"  {name} {value:.4g}"
    print(text, file=sys.stderr, flush=True)


def train(
    recipe,
    changes=None,
    *,
    out=None,
    data=None,
    target=None,
    class_names=None,
    data_dir="",
    workers=0,
    threads=1,
    input_threads=0,
    backend="",
    gpus=(),
    mlflow="",
    prometheus="",
    steps=0,
    epochs=0,
    fresh=False,
    progress=True,
    on_metrics=None,
    on_evaluation=None,
):
    """Trains a recipe, or goes on with an unfinished run of it, and returns its Run.

    recipe         a name, a TOML file, a file of data such as "table:rows.csv", or a dictionary of keys
    changes        keys to change: {"epochs": 2, "optimizer.learning_rate": 0.01}
    out            the run's folder; by default runs/NAME-seedN; also s3://BUCKET/KEY
    data           (train, held_out) in place of the recipe's data; each is a pair of arrays, (images, labels) or
                   (features, target), or a dictionary of arrays by the names of the model's fields. Images are
                   uint8 [n, channels, height, width]; everything else is float32 or int32 [n, ...], and other
                   types of numbers are converted, which copies. Integers of the target are classes.
    target         which field is predicted; by default the last one
    class_names    names of the target's classes, for people
    workers, threads, input_threads, backend, gpus
                   where it runs, as the command's flags; no result depends on it
    mlflow         address of an MLflow tracking server, which gets the curves and settings, too
    prometheus     file (.prom) for the newest values, for Prometheus' node exporter
    steps, epochs  stop there; the schedule does not change
    fresh          start over; what the folder held is moved aside
    progress       print a line for each point of the curves
    on_metrics     called with a dictionary for each such point
    on_evaluation  called with a dictionary after each evaluation; if it returns True, the run ends there

    Ctrl-C and SIGTERM: the run saves after the current step, and then the signal is passed on, so that Ctrl-C
    raises KeyboardInterrupt. The same call goes on with the run. Other threads of Python run meanwhile.

    Raises podium.Error for a fault of recipe, data or machine.
    """
    keys, sets = dict(changes or {}), []
    if data is not None:
        sets, counts = own_data(data, target, class_names)
        keys.update(data="own", train_examples=counts[0], test_examples=counts[1])
    name, seed, toml = resolve(recipe, keys, data_dir)
    folder = str(out) if out is not None else f"runs/{name}-seed{seed}"

    def metrics(values):
        if progress:
            _line("training", values)
        if on_metrics is not None:
            on_metrics(values)

    def evaluation(values):
        if progress:
            _line("evaluation", values)
        return on_evaluation(values) if on_evaluation is not None else None

    result, folder, stopped_by = _podium.train(
        recipe=toml,
        name=name,
        out=folder,
        data=sets,
        data_dir=str(data_dir),
        workers=workers,
        threads=threads,
        input_threads=input_threads,
        backend=backend,
        gpus=list(gpus),
        mlflow=mlflow,
        prometheus=str(prometheus),
        steps=steps,
        epochs=epochs,
        fresh=fresh,
        # Only the main thread of Python gets signals.
        catch_signals=threading.current_thread() is threading.main_thread(),
        on_metrics=metrics,
        on_evaluation=evaluation,
        on_warning=lambda text: warnings.warn(text, stacklevel=2),
    )
    if stopped_by:
        signal.raise_signal(stopped_by)
    return Run(folder, result)
