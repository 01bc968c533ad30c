#!/usr/bin/env bash
# Builds docs/ into site/; needs mkdocs-material (pip install -e '.[docs]').
set -euo pipefail
cd "$(dirname "$0")/../.."
exec mkdocs build --strict "$@"
