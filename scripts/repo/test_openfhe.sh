#!/usr/bin/env bash
# The tests of ciphertexts on all engines, OpenFHE included, and the time of single operations. OpenFHE's wheel is for
# CPython 3.10, the project's pins for 3.11, so this makes an environment of its own, .venv310, without torch: tests
# that need torch are skipped there with that reason. Where there is no CPython 3.10 it says so and ends well.
# Usage: scripts/repo/test_openfhe.sh [pytest arguments].  PYTHON310 names the interpreter if it is not found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

is_310() {
    [ -n "$1" ] && "$1" -c 'import sys, platform
sys.exit(sys.version_info[:2] != (3, 10) or platform.python_implementation() != "CPython")' 2>/dev/null
}
base=
for candidate in "${PYTHON310:-}" python3.10 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.10.*/bin/python; do
    if is_310 "$candidate"; then base=$candidate; break; fi
done
if [ -z "$base" ]; then
    echo "skipped: openfhe needs CPython 3.10, and none was found (name one by PYTHON310=...)"
    exit 0
fi

PY=.venv310/bin/python
packages=(numpy==2.2.6 scipy==1.15.3 pytest==9.2.0 hypothesis==6.168.5 openfhe==1.6.1.0.22.4)
[ -x "$PY" ] || "$base" -m venv .venv310
if ! cmp -s <(echo "${packages[*]}") .venv310/.installed; then
    echo "installing ${packages[*]} (once)"
    "$PY" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    "$PY" -m pip install --quiet --disable-pip-version-check desilofhe==2.0.0 ||
        echo "desilofhe==2.0.0 does not install here: its tests are skipped, the others run"
    echo "${packages[*]}" > .venv310/.installed
fi

"$PY" -m pytest --durations=5 tests/cgf/he tests/test_imports.py "$@"
OMP_NUM_THREADS=1 "$PY" scripts/bench/time_engines.py
