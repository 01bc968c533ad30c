"""Fits kept on disk: a search takes seconds, and its result follows from the request and the source alone."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path

from cgf.approx import fit
from cgf.approx.exponential import Exponential
from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.verified import verified
from cgf.plan import candidates
from cgf.results import write_json
from cgf.target import check_writable


class FitCache:
    """One JSON file a fit in a folder; folder None: every fit is made anew.

    A file's name is a digest of the request and of the source of cgf.approx and of the list of candidates, so a
    changed search never reads an old result. A damaged file is made again, and so is one whose coefficients have
    another error than it states. A fit that overflows on its domain is not
    kept. UserError for a folder that cannot be written to, before a fit is made: at once where it holds none, which
    might be all that are asked for.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None and not any(folder.glob("*.json")):
            check_writable(folder / "fit.json")
        sources = [*sorted(Path(fit.__file__).parent.glob("*.py")), Path(candidates.__file__)] if folder else []
        self._source = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()

    def get(self, request: tuple[object, ...], make: Callable[[], Exponential]) -> Exponential:
        """The fit that ``make`` gives for the request, from its file where there is one; else made, and kept."""
        if self.folder is None:
            return make()
        name = hashlib.sha256(f"{self._source} {request!r}".encode()).hexdigest()[:24]
        path = self.folder / f"{name}.json"
        try:
            kept = exponential_from_json(json.loads(path.read_text()))
            return kept if kept.fit is None else verified(kept, path)
        except (OSError, ValueError, RecursionError):  # UserError is a ValueError
            check_writable(path)
            exponential = make()
        if exponential.fit is None or math.isfinite(exponential.fit.max_error):  # one that overflows serves no plan
            write_json(path, exponential.to_json())
        return exponential
