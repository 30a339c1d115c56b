#!/usr/bin/env bash
# check_stubs.sh: do the stubs in the tree say what the installed package's extension module has, and
# is the package well typed? With --fix, writes them. Uses the python3 on PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
stubs=python/regauge/_core.pyi
made=$(mktemp --suffix=.pyi)
trap 'rm -f "$made"' EXIT
python3 -m nanobind.stubgen -q -m regauge._core -o "$made"
sed -i 's/os\.PathLike/os.PathLike[str]/g; s/NDArray,/NDArray[Any],/; s/^from typing import Annotated/&, Any/' "$made"
if [[ ${1:-} == --fix ]]; then cp "$made" "$stubs"; fi
diff -u "$stubs" "$made"
MYPYPATH=python python3 -m mypy --strict python/regauge python/pytest_regauge
