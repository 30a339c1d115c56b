#!/usr/bin/env bash
# check_tidy.sh BUILD: clang-tidy over what the build folder BUILD compiles of src/, to the first file with a
# finding; file by file or, where it was configured with REGAUGE_UNITY=ON, several as one, which takes a quarter
# of the time.
# Wants the clang-tidy of tools/python-requirements.txt: version 14 visits every system header and is
# five to ten times slower.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(cd "${1:?build folder}" && pwd)
python3 - "$build" "$PWD/src" <<'END' |
import json, sys
build, src = sys.argv[1:]
for entry in json.load(open(f"{build}/compile_commands.json")):
    file = entry["file"]
    if file.startswith((f"{src}/", f"{build}/CMakeFiles/")):
        print(file, end="\0")
END
  sort -z -u | xargs -0 -r -n 1 -P "$(nproc)" sh -c 'clang-tidy "$@" || exit 255' _ --quiet --extra-arg=-w -p "$build" 2> >(
    grep -v -E '^([0-9]+ warnings? generated|Suppressed |Use -header-filter|\[[0-9]+/)' >&2 || true
  )
