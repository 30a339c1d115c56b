"""`regauge` and `python -m regauge`: the command line, the same verbs as the C++ program."""

import sys

from ._core import run_command_line


def main() -> int:
    return run_command_line(["regauge", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
