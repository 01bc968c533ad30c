#!/usr/bin/env bash
# Builds docs/ into site/; needs mkdocs-material (pip install -e '.[docs]').
set -euo pipefail
cd "$(dirname "$0")/../.."
NO_MKDOCS_2_WARNING=1 exec mkdocs build --strict "$@"
