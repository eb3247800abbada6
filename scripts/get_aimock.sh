#!/bin/sh
# get_aimock.sh FOLDER: installs the mock server of model providers that tests/real/test_aimock.py runs against
# (npm, MIT, no dependencies of its own, 12 MB), without running any script of the package.
set -eu
version=1.43.0
folder=${1:-.aimock}

if ! command -v npm >/dev/null 2>&1 || ! command -v node >/dev/null 2>&1; then
    echo "error: node (20.15 or later) with npm is needed" >&2
    exit 1
fi
mkdir -p "$folder"
npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-save --loglevel=error \
    "@copilotkit/aimock@$version"
