#!/usr/bin/env bash
# The property tests on fresh draws, ROUNDS times (5), each with a seed of its own, and the kills at fresh moments; a
# failure prints what repeats it. scripts/test.sh draws the same every time. Usage: bash scripts/repo/fuzz.sh [pytest options]
set -euo pipefail
source "$(dirname "$0")/../setup.sh" requirements.txt requirements-dev.txt requirements-models.txt

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HYPOTHESIS_PROFILE=fresh
mapfile -t files < <(grep -rlE "from hypothesis|HYPOTHESIS_PROFILE" tests --include="test_*.py")
for ((round = 1; round <= ${ROUNDS:-5}; round++)); do
    seed=$((RANDOM * 32768 + RANDOM))
    echo "round $round, --hypothesis-seed=$seed"
    "$PY" -m pytest -q --hypothesis-seed="$seed" "${files[@]}" "$@"
done
