#!/bin/sh
# wheel_libraries.sh: the C++ libraries of a wheel in the containers of manylinux (AlmaLinux) and musllinux (Alpine).
set -eu
if command -v apk > /dev/null; then
  apk add cli11-dev curl-dev eigen-dev fmt-dev nlohmann-json
else
  dnf install -y epel-release
  dnf install -y cli11-devel eigen3-devel fmt-devel json-devel libcurl-devel
fi
