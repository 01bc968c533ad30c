#!/usr/bin/env bash
# Tests of half a minute to minutes each, which scripts/test.sh leaves out: published softmaxes on ciphertexts, a row of
# training from end to end, ARION's inverse fitted anew. They take about five minutes on two cores.
set -euo pipefail
source "$(dirname "$0")/../setup.sh" requirements.txt requirements-dev.txt requirements-models.txt

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} CGF_SLOW=1
mapfile -t files < <(grep --recursive --files-with-matches --include='test_*.py' 'CGF_SLOW' tests)
"$PY" -m pytest --durations=10 "${files[@]}" "$@"
