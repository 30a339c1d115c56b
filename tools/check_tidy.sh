#!/usr/bin/env bash
# check_tidy.sh BUILD: clang-tidy over src/, with the compile commands of the build folder BUILD.
# Wants the clang-tidy of tools/python-requirements.txt: version 14 visits every system header and is
# five to ten times slower.
set -euo pipefail
cd "$(dirname "$0")/.."
find src -name '*.cpp' -print0 | sort -z |
  xargs -0 -r -n 2 -P "$(nproc)" clang-tidy --quiet --extra-arg=-w -p "${1:?build folder}" 2> >(
    grep -v -E '^([0-9]+ warnings? generated|Suppressed |Use -header-filter)' >&2 || true
  )
