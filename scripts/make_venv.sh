#!/bin/sh
# make_venv.sh FOLDER: makes a virtual environment with $PYTHON, or with the first Python 3.11+ on the PATH.
set -eu
folder=$1

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3 python3.14 python3.13 python3.12 python3.11 python
fi
python=
for candidate; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "error: Python 3.11 or later is needed, and none of these is one: $*" >&2
    echo "       name one that is: make PYTHON=/path/to/python3.12 ..." >&2
    exit 1
fi
if ! "$python" -m venv --clear "$folder"; then
    rm -rf "$folder"
    echo "error: $python cannot make a virtual environment (Debian and Ubuntu: apt install python3-venv)" >&2
    exit 1
fi
