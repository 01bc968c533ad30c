#!/usr/bin/env bash
# Format, lint, types, documents and tests in an environment of the checkout's own. Data sets are found by CGF_DATA_ROOT, or in
# ../shared/data beside the checkout; tests that need them are skipped, with a reason, where there are none.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-dev.txt requirements-models.txt

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the test workers and what they start share the cores
"$PY" -m ruff format --check .
"$PY" -m ruff check .
# two halves side by side, which take about as long
documents_and_large() {
    "$PY" scripts/repo/tables.py --check # first: mypy beside takes 1.4 GB, which leaves too little for the tests below
    for page in tree reference errors methods drawings paper_page; do "$PY" "scripts/repo/$page.py" --check; done
    NO_MKDOCS_2_WARNING=1 "$PY" -m mkdocs build --strict --quiet --site-dir "$(mktemp -d)/site"
    # tests that take 2 GB, in engines or in processes of torch; where the arguments name none of these, pytest ends with code 5.
    # Without arguments no other file is loaded.
    local files=("$@")
    [ $# -gt 0 ] || mapfile -t files < <(grep --recursive --files-with-matches --include='*.py' 'mark\.alone' tests)
    "$PY" -m pytest -m alone --durations=3 "${files[@]}" || [ $? = 5 ]
}
told=$(mktemp)
set -m # a process group of its own, which ends as a whole
documents_and_large "$@" >"$told" 2>&1 &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true' EXIT
"$PY" -m mypy
bash scripts/repo/test_openfhe.sh --quiet # in a CPython 3.10, where there is one; the tests below skip OpenFHE
wait "$beside" || { cat "$told"; exit 1; }
cat "$told"
# worksteal: a worker's tests follow one another as they stand, so that what a file makes once is made once
"$PY" -m pytest -n "${TEST_WORKERS:-2}" --dist worksteal --durations=10 -m "not alone" "$@"
