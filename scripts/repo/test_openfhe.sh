#!/usr/bin/env bash
# The tests of ciphertexts on OpenFHE: conformance, circuits, whole attentions, and the two libraries against each other. OpenFHE's
# wheel is for CPython 3.10, the project's pins for 3.11, so this makes an environment of its own, .venv310, without torch: tests
# that need torch are skipped there with that reason. Where there is no CPython 3.10 it says so and ends well.
# Usage: scripts/repo/test_openfhe.sh [pytest arguments].  PYTHON310 names the interpreter if it is not found.
# ALL=1: every test of ciphertexts on every engine, circuits of 11 levels too, and the time of single operations.  OUT=FILE.json: writes what ran and passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

is_310() {
    [ -n "$1" ] && "$1" -c 'import sys, platform
sys.exit(sys.version_info[:2] != (3, 10) or platform.python_implementation() != "CPython")' 2>/dev/null
}
base=
for candidate in "${PYTHON310:-}" python3.10 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.10.*/bin/python \
    "$(uv python find --no-python-downloads 3.10 2>/dev/null || true)"; do
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
    if ! "$PY" -m pip install --quiet --disable-pip-version-check --no-compile "${packages[@]}"; then
        echo "skipped: the packages of OpenFHE's tests do not install here, for the reason above"
        exit 0
    fi
    "$PY" -m pip install --quiet --disable-pip-version-check desilofhe==2.0.0 ||
        echo "desilofhe==2.0.0 does not install here: its tests are skipped, the others run"
    echo "${packages[*]}" > .venv310/.installed
fi

export PYTHONPATH=$PWD # the environment has the engines alone
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
chosen=(tests/cgf/he/test_{conformance,engines,openfhe,attention_engines}.py tests/cgf/bench/test_authors_setting.py
    -k "(openfhe or two_libraries) and not formula")
[ -z "${ALL:-}" ] || chosen=(tests/cgf/he tests/cgf/bench/test_authors_setting.py tests/test_imports.py)
code=0
"$PY" -m pytest --durations=5 -p no:cacheprovider -o junit_family=xunit1 --junitxml="$report/tests.xml" "${chosen[@]}" "$@" || code=$?
[ -z "${OUT:-}" ] || "$PY" scripts/repo/openfhe_result.py "$report/tests.xml" "$OUT"
[ -z "${ALL:-}" ] || "$PY" scripts/bench/time_engines.py
exit "$code"
