"""`podium` and `python -m podium`: the command, which the package carries as a program."""

import os
import sys
from pathlib import Path


def main():
    program = Path(__file__).parent / "bin" / "podium"
    os.execv(program, ["podium", *sys.argv[1:]])


if __name__ == "__main__":
    main()
