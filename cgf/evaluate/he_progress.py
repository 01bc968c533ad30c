"""Where an encrypted evaluation is, and the lines of the samples that it has finished."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cgf.evaluate.he_lines import FinishedSamples
from cgf.evaluate.loop import Outcome
from cgf.progress import Bar, clock
from cgf.types import Json


class EvaluationProgress(Bar):
    """Samples a second, time left by the work that is left, running accuracy and agreement."""

    def __init__(
        self,
        before: FinishedSamples,
        samples: int,
        work: int,
        say: Callable[[str], None],
        *,
        terminal: bool | None = None,
    ) -> None:
        super().__init__("under CKKS", work, say=say, terminal=terminal)
        records = before.samples.values()
        self._right = sum(record["prediction"] == record["label"] for record in records)
        self._agreeing = sum(record["prediction"] == record["plain"] for record in records)
        self._before, self._samples = len(before.samples), samples
        self._worked = 0
        self._lap = self._start

    def lap(self) -> float:
        """Seconds since the last call; they sum to the wall time of a run."""
        before, self._lap = self._lap, time.perf_counter()
        return self._lap - before

    def add(self, samples: list[Json], work: int) -> None:
        """Counts the lines of a batch that took ``work``, and says where the evaluation is."""
        self._done, self._worked = self._done + len(samples), self._worked + work
        self._right += sum(row["prediction"] == row["label"] for row in samples)
        self._agreeing += sum(row["prediction"] == row["plain"] for row in samples)
        spent, seen = time.perf_counter() - self._start, self._before + self._done
        self.show(
            self._worked,
            f"{seen}/{self._before + self._samples} samples, {self._done / spent:.2f} samples/s, "
            f"{clock(spent * (self.total - self._worked) / self._worked)} left, accuracy "
            f"{self._right / seen:.4f}, agreement {self._agreeing / seen:.4f}",
        )


def sample_lines(outcome: Outcome, clear: dict[str, dict[int, int]], ruined: set[int]) -> list[Json]:
    """The lines of a batch's samples; logits to 7 digits, all that float32 holds, None for ruined samples."""
    lines = []
    for i, label, prediction, logits in zip(
        outcome.index.tolist(),
        outcome.labels.tolist(),
        outcome.predictions.tolist(),
        outcome.logits.tolist(),
        strict=True,
    ):
        whole = i not in ruined and all(map(math.isfinite, logits))
        lines.append(
            {
                "index": i,
                "label": label,
                "prediction": prediction if whole else None,
                **{name: by[i] for name, by in clear.items()},
                "logits": [float(f"{x:.7g}") for x in logits] if whole else None,
            }
        )
    return lines
