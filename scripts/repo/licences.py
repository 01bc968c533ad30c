"""Writes the licence of every package that is installed to results/supply/licences.json: scripts/repo/licences.py

A licence is what the package itself states: its licence expression, else its classifiers, else the first line of its
licence field, else ``not stated``. Packages that the requirements files do not name (of the interpreter) are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
FILES = ("requirements.txt", "requirements-dev.txt", "requirements-models.txt")
OUT = ROOT / "results/supply/licences.json"
NOT_STATED = "not stated"


def canonical(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named() -> dict[str, str]:
    """Versions by package of all requirements files, of those that this interpreter and system take."""
    lines = "\n".join((ROOT / file).read_text() for file in FILES)
    pins = [Requirement(line) for line in re.findall(r"^(\w.*==[^\\\n]+)", lines, re.MULTILINE)]
    return {canonical(p.name): str(p.specifier).removeprefix("==") for p in pins if not p.marker or p.marker.evaluate()}


def licence(package: Distribution) -> str:
    """What the package states of its licence."""
    about = package.metadata
    if "License-Expression" in about:
        return str(about["License-Expression"])
    classifiers = [c.split(" :: ")[-1] for c in about.get_all("Classifier") or [] if c.startswith("License :: ")]
    if classifiers:
        return "; ".join(sorted(set(classifiers)))
    lines = str(next(iter(about.get_all("License") or []), "")).strip().splitlines()
    return lines[0].strip()[:80] if lines and lines[0].strip() not in ("", "UNKNOWN") else NOT_STATED


def main() -> None:
    """Writes the file; ends with code 1 where a version differs from the requirements files' or none is installed."""
    wanted = named()
    installed = {canonical(p.metadata["Name"]): p for p in distributions()}
    other = [
        f"{name} {installed[name].version}"
        for name in wanted
        if name in installed and installed[name].version != wanted[name]
    ]
    if other or not installed.keys() & wanted.keys():
        sys.exit(
            f"error: the environment is not the one of {', '.join(FILES)}: {', '.join(other) or 'none is installed'}"
        )
    packages = [
        {"package": name, "version": wanted[name], "licence": licence(installed[name])}
        for name in sorted(wanted.keys() & installed.keys())
    ]
    counts = Counter(package["licence"] for package in packages)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "packages": len(packages),
        "not_installed_here": sorted(wanted.keys() - installed.keys()),
        "licences": dict(counts.most_common()),
        "rows": packages,
    }
    OUT.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{OUT.relative_to(ROOT)}: {len(packages)} packages, {counts[NOT_STATED]} whose licence is not stated")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # it takes no arguments
    main()
