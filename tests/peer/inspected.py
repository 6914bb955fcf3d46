"""What the checks of steps on text share: a drawn text, a step of a network on it as `podium inspect` writes it, and a count of
the values that differ from the peer's."""
import os
import random
import subprocess
import tempfile

LIMIT = 2e-5


def inspected(podium, recipe, overrides, steps):
    """Yields (step, file) for each step of a training by this recipe on drawn.txt."""
    with tempfile.TemporaryDirectory() as folder:
        draw = random.Random(1)
        with open(os.path.join(folder, "drawn.txt"), "w", encoding="utf-8") as file:
            file.write("".join(draw.choice(["ka", "lo", "mü", "tu", " ", "\n"]) for _ in range(3000)))
        with open(os.path.join(folder, "recipe.toml"), "w", encoding="utf-8") as file:
            file.write(recipe)
        for step in steps:
            out = os.path.join(folder, f"{step}.safetensors")
            subprocess.run([os.path.abspath(podium), "inspect", "recipe.toml", "--step", str(step), "--out", out, *overrides],
                           check=True, cwd=folder, stdout=subprocess.DEVNULL)
            yield step, out


class Comparison:
    """Of tensors: each is as far from the peer's as the largest difference is of the largest value."""

    def __init__(self):
        self.worst, self.failed = 0.0, False

    def tensor(self, name, ours, theirs, scale=None):
        error = ((ours.double() - theirs).abs().max() / (theirs if scale is None else scale).abs().max()).item()
        self.worst = max(self.worst, error)
        self.require(error <= LIMIT, f"{name}: error {error:.2e}")

    def require(self, holds, words):
        if not holds:
            self.failed = True
            print(words)
