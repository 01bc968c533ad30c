"""The noise figure and the authors' setting on another engine: python scripts/bench/noise_engine.py ENGINE OUT.json

ENGINE: desilo (2.0.0), desilo1 (desilofhe 1.17.0 with use_bootstrap=True) or openfhe, in an environment that has
it and numpy and scipy, no more: noise_engines.sh makes those, and noise.py shows what they leave.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from cgf.bench.noise import measure
from cgf.ending import refusals
from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.desilo1 import Desilo1Owner
from cgf.he.engines.openfhe import OpenFHEOwner
from cgf.results import run_info, write_json

ENGINES = {
    "desilo": ("desilofhe", DesiloOwner),
    "desilo1": ("desilofhe", Desilo1Owner),
    "openfhe": ("openfhe", OpenFHEOwner),
}
SETTINGS = {"rows": 64, "columns": 128, "steps": [1, 2, 3, 4, 6, 9], "seed": 42, "runs": 1}


def main(words: list[str]) -> None:
    """Measures on the engine named, and writes the file named."""
    if len(words) != 2 or words[0] not in ENGINES:
        raise UserError(f"noise_engine.py takes an engine ({', '.join(ENGINES)}) and a file, and {words} was given")
    package, owner = ENGINES[words[0]]
    measured = measure(owner, **SETTINGS)  # type: ignore[arg-type]  # numbers and names of SETTINGS, by name
    name = f"{package} {importlib.metadata.version(package)}"
    write_json(Path(words[1]), {"engine": name, **measured, "run": run_info({"engine": words[0], **SETTINGS}, 42)})
    print(f"{name}: {words[1]}")


if __name__ == "__main__":
    with refusals():
        main(sys.argv[1:])
