"""What a server has finished of an upload, on disk: killed at any moment, it goes on behind the last stage kept.

A folder an upload, named by a digest of all that its result depends on. state.json names the files of the ciphertexts
that are needed further on, and is replaced last: until then the files of the stage before are there too. These files
stay with the server, so that what they hold beside ciphertexts is its own.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from cgf.bundle.folder import small_json
from cgf.errors import UserError
from cgf.he.engines.desilo_files import Evaluator, most_bytes
from cgf.he.network_maps import State
from cgf.header import STATE, Terms
from cgf.named import arguments
from cgf.parcel import Parcel, ParcelWriter
from cgf.results import write_json
from cgf.types import Ciphertext, Json

SCHEMA, FILE = 1, "state.json"


@dataclass
class KeptState:
    """The state of one upload in a folder of its own.

    done: stages that are finished;  stages: their reports
    """

    folder: Path
    digest: str
    terms: Terms
    key: str
    done: int = 0
    stages: list[Json] = field(default_factory=list)

    def resume(self, evaluator: Evaluator) -> State | None:
        """The ciphertexts behind the last stage kept; None where none was. UserError for files that do not fit."""
        path = self.folder / FILE
        if not path.is_file():
            return None
        given = arguments(_contents, small_json(path), str(path))
        if (given["kind"], given["schema"], given["digest"]) != (STATE, SCHEMA, self.digest):
            raise UserError(f"{path} must be a state of schema {SCHEMA} of {self.digest[:16]}, and is of another run")
        self.done, self.stages = given["done"], given["stages"]
        return {name: self._read(name, file, evaluator) for name, file in given["files"].items()}

    def keep(self, state: State, evaluator: Evaluator) -> None:
        """Writes the ciphertexts, then state.json that names them, then removes what nobody names any more."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {name: f"{self.done:03d}-{index:03d}.state" for index, name in enumerate(state)}
        for name, cts in state.items():
            self._write(name, self.folder / files[name], cts, evaluator)
        content = {"kind": STATE, "schema": SCHEMA, "digest": self.digest, "done": self.done}
        write_json(self.folder / FILE, {**content, "stages": self.stages, "files": files})
        for path in self.folder.iterdir():
            if path.name not in (FILE, *files.values()):
                path.unlink()

    def forget(self) -> None:
        """Removes the folder; the index first, so that half a folder is never gone on from."""
        (self.folder / FILE).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, path: Path, cts: list[Ciphertext], evaluator: Evaluator) -> None:
        path.unlink(missing_ok=True)  # of a run that was killed before it could name the file
        with ParcelWriter(path, STATE, self.terms, self.key, {"digest": self.digest, "name": name}) as parcel:
            for i, ct in enumerate(cts):
                parcel.add(f"{name}.{i}", evaluator.dump(ct), evaluator.level(ct))

    def _read(self, name: str, file: str, evaluator: Evaluator) -> list[Ciphertext]:
        if Path(file).name != file:
            raise UserError(f"{self.folder / FILE} must name files beside it, and names {file!r}")
        with Parcel(self.folder / file, STATE) as parcel:
            parcel.check(self.terms, self.key)
            if parcel.header.facts != {"digest": self.digest, "name": name}:
                raise UserError(f"{parcel.path} must be the state {name} of {self.digest[:16]}, and is another")
            cts = []
            for item, data in parcel.items():
                level = item.level if item.level is not None else -1
                if not 0 <= level <= self.terms.max_level or item.size > most_bytes(self.terms.max_level, level):
                    raise UserError(f"{parcel.path} must hold ciphertexts of this ring, and {item.name} is none")
                cts.append(evaluator.read(data, level))
            return cts


def _contents(kind: str, schema: int, digest: str, done: int, stages: list[Json], files: dict[str, str]) -> None:
    """The types of a state.json."""
