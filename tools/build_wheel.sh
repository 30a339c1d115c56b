#!/usr/bin/env bash
# build_wheel.sh OUTPUT [PIP OPTION...]: the Python package as a wheel in the folder OUTPUT, with what
# it links and a BLAS inside. Uses the build tools of the python3 on PATH: tools/wheel-requirements.txt.
# pip's options may change the build: -Ccmake.build-type=Debug.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:?folder}
shift
export CXX=${CXX:-c++}  # CMake's own choice, so that ccache shares objects with other builds
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
python3 -m pip wheel . --no-deps --no-build-isolation -w "$raw" "$@"
python3 -m auditwheel repair -w "$output" "$raw"/regauge-*.whl
for wheel in "$output"/regauge-*-abi3-*.whl; do  # of Python 3.12 or later
  [[ ! -e $wheel ]] || python3 -m abi3audit --strict "$wheel"
done
