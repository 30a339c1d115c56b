#!/usr/bin/env bash
# Are all C++ sources formatted? With --fix, formats them. Needs clang-format 14.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && options=(-i)
folders=()
for folder in include src python tests bench fuzz; do [[ -d $folder ]] && folders+=("$folder"); done
find "${folders[@]}" \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 -r clang-format "${options[@]}"
