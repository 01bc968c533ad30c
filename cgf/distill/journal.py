"""What a run writes down as it goes: metrics.jsonl, wandb where asked, lines for the reader."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cgf.checks import is_whole
from cgf.distill.wandb_log import log_checkpoint, log_layers
from cgf.errors import UserError, reason
from cgf.results import append_line, read_lines
from cgf.types import Json

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass
class Journal:
    """Rows of scalars of the run in ``folder``, from the main process alone."""

    accelerator: Accelerator
    folder: Path
    tracker: Json = field(default_factory=dict)

    @property
    def wandb(self) -> bool:
        """Whether wandb is asked for."""
        return self.tracker.get("name") == "wandb"

    def start(self, config: Json) -> None:
        """Starts wandb where it is asked for; UserError where it cannot start."""
        if not self.wandb:
            return
        options = {"mode": self.tracker.get("mode", "online"), "dir": str(self.folder), "name": self.folder.name}
        try:
            self.accelerator.init_trackers(
                self.tracker.get("project", "cgf-softmax"),
                config=json.loads(json.dumps(config)),
                init_kwargs={"wandb": options},
            )
        except Exception as error:  # wandb raises many kinds; all mean that it cannot log
            raise UserError(
                f"wandb could not start ({type(error).__name__}: {reason(error)}): "
                "log in, or use tracker.mode=offline or tracker.name=none"
            ) from None

    def write(self, record: Json) -> None:
        """Appends a record, which has its 'step', in the main process."""
        if not self.accelerator.is_main_process:
            return
        append_line(self.folder / "metrics.jsonl", record)
        if self.wandb:
            self.accelerator.log({k: v for k, v in record.items() if k != "step"}, step=record["step"])

    def finish(self, checkpoint: Path, layers: list[dict[str, float]], step: int) -> None:
        """Gives wandb, where it is asked for, a table of the layers and the checkpoint as an artifact.

        layers: of each its numbers by name; none makes no table. tracker.artifact says what of the checkpoint.
        """
        if self.wandb and self.accelerator.is_main_process:
            tracker = self.accelerator.get_tracker("wandb")
            log_layers(tracker, layers, step)
            log_checkpoint(tracker, checkpoint, str(self.tracker.get("artifact", "card")))

    def cut(self, step: int) -> None:
        """Forgets what was written after a step: a resumed run goes on from there."""
        log = self.folder / "metrics.jsonl"
        records = read_lines(log)
        for number, record in enumerate(records, start=1):
            if not isinstance(record, dict) or not is_whole(record.get("step")):
                raise UserError(f"{log} needs a step in every line, and line {number} has none: remove the file")
        kept = [record for record in records if record["step"] <= step]
        draft = log.with_suffix(".part")
        draft.write_text("".join(json.dumps(record) + "\n" for record in kept))
        draft.replace(log)
