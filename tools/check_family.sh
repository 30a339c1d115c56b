#!/usr/bin/env bash
# check_family.sh NAME [BUILD]: all that is tested of one fixture (tests/fixtures/NAME), with the lab that is built in
# BUILD (build/lab): files read and written, transformers' reference output and every key of the config; act, diff, canon,
# alignment and damage. The name t5 takes t5-tied along in the Python tests. Needs the packages of tools/python-requirements.txt.
set -euo pipefail
name=${1:?usage: tools/check_family.sh NAME [BUILD]}
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${2:-$root/build/lab}" && pwd)
[[ -d $root/tests/fixtures/$name ]] || { echo "there is no tests/fixtures/$name; tools/make_fixtures.py --only $name makes it" >&2; exit 2; }

ctest --test-dir "$build" --output-on-failure --no-tests=error -R "/${name//[^A-Za-z0-9]/_}(\$| )"
cd "$root"
REGAUGE=$build/regauge python3 -m pytest -q tests/python/test_{keys,lab_parity,transformers_judge,diff,canon,align}.py -k "$name"
