#!/usr/bin/env bash
# Format, lint, types, documents and tests in an environment of the checkout's own. Data sets are found by CGF_DATA_ROOT, or in
# ../shared/data beside the checkout; tests that need them are skipped, with a reason, where there are none.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-dev.txt requirements-models.txt

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the test workers and what they start share the cores
"$PY" -m ruff format --check .
"$PY" -m ruff check .
# two at a time, side by side: of the three that take 2 GB (types, large tests, all others) only one
documents() {
    "$PY" scripts/repo/tables.py --check
    for page in tree reference errors methods drawings paper_page; do "$PY" "scripts/repo/$page.py" --check; done
    NO_MKDOCS_2_WARNING=1 "$PY" -m mkdocs build --strict --quiet --site-dir "$(mktemp -d)/site"
}
large() {
    # tests that take 2 GB, in engines or in processes of torch; where the arguments name none of these, pytest ends with code 5.
    # Without arguments no other file is loaded.
    local files=("$@")
    [ $# -gt 0 ] || mapfile -t files < <(grep --recursive --files-with-matches --include='*.py' 'mark\.alone' tests)
    "$PY" -m pytest -m alone --durations=3 "${files[@]}" || [ $? = 5 ]
}
told=$(mktemp)
beside() { # a function and its arguments, in a process group of its own, which ends as a whole
    set -m
    "$@" >"$told" 2>&1 &
    own=$!
    set +m
    trap 'kill -- "-$own" 2>/dev/null || true' EXIT
}
ended() { # what ran beside
    wait "$own" || { cat "$told"; exit 1; }
    cat "$told"
}
beside documents
"$PY" -m mypy
ended
beside large "$@"
bash scripts/repo/test_openfhe.sh --quiet # in a CPython 3.10, where there is one; the tests below skip OpenFHE
ended
# worksteal: a worker's tests follow one another as they stand, so that what a file makes once is made once
"$PY" -m pytest -n "${TEST_WORKERS:-2}" --dist worksteal --durations=10 -m "not alone" "$@"
