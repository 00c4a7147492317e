#!/usr/bin/env bash
# Make or refresh the virtual environment: tools/setup.sh VENV. Safe to run again; prints one clear line when it cannot.
set -euo pipefail
venv=$1

fail() {
    echo "setup: $*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
    python=$(find_python) || fail "Python 3.11 or newer was not found. Install it: apt-get install python3 python3-venv"
    "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
        fail "$python has no venv module. Install it: apt-get install python3-venv"
    echo "setup: making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" || fail "could not make $venv (see above)"
fi
echo "setup: installing the pinned packages (a few minutes the first time)"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]' ||
    fail "pip could not install the pinned packages (see above). Run the same command again to continue."
