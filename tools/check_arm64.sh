#!/usr/bin/env bash
# check_arm64.sh [CTEST OPTION...]: builds the core for arm64 on a Debian 12 of another architecture, and runs its tests under qemu,
# or those that the options pick (-L io, -R Sha256): about half an hour of processor time to build, and as much to run.
# Needs the packages g++-aarch64-linux-gnu, qemu-user and mmdebstrap; the libraries for arm64 go to build/arm64-root and touch
# nothing else. The preset `arm64` builds other targets, and `qemu-aarch64 -L build/arm64-root build/arm64/regauge` is the program.
set -euo pipefail
cd "$(dirname "$0")/.."
root=build/arm64-root
libraries=libc6-dev,libstdc++-12-dev,libcli11-dev,libcurl4-openssl-dev,libeigen3-dev,libfmt-dev,libgtest-dev,libopenblas0-pthread,nlohmann-json3-dev
modules=(base io numerics arch symmetry action equivalence)

if [[ ! -d $root ]]; then
  mkdir -p build
  mmdebstrap --variant=extract --architectures=arm64 --include="$libraries" bookworm "$root.new"
  # What the package's own script would do.
  ln -s openblas-pthread/libopenblas.so.0 "$root.new/usr/lib/aarch64-linux-gnu/libopenblas.so.0"
  mv "$root.new" "$root"
fi
export REGAUGE_UNITY=${REGAUGE_UNITY:-ON}
cmake --preset arm64
cmake --build --preset arm64 --target regauge_cli "${modules[@]/%/_tests}"
# Left out: the tests of other modules, and one that starts its own program once more, which qemu cannot without the kernel's help (binfmt_misc).
ctest --preset arm64 -E '^BlasDeathTest|_NOT_BUILT$' "$@"
