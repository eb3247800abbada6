#!/bin/sh
# make_venv.sh FOLDER: makes a virtual environment with $PYTHON, or with the first Python 3.11+ on the PATH.
set -eu
folder=$1
wanted='import sys; sys.exit(sys.version_info < (3, 11))'

if [ -n "${PYTHON:-}" ]; then
    candidates=$PYTHON
else
    candidates="python3 python3.14 python3.13 python3.12 python3.11 python"
fi
for python in $candidates; do
    if "$python" -c "$wanted" 2>/dev/null; then
        break
    fi
    python=
done
if [ -z "$python" ]; then
    echo "error: Python 3.11 or later is needed; looked for: $candidates" >&2
    echo "       install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
    exit 1
fi
if ! "$python" -m venv --clear "$folder"; then
    rm -rf "$folder"
    echo "error: $python cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)" >&2
    exit 1
fi
