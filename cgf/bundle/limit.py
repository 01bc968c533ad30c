"""The red light: which decrypted logits say that a sample left the domain that the polynomials were made for."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from cgf.checks import positive, whole
from cgf.errors import UserError

MARGIN = 2.0  # times the largest logit that training data show
NOISE = 1e-2  # of the bound: imaginary parts beyond it are no noise of a circuit on real numbers


@dataclass(frozen=True)
class Limit:
    """largest: |logit| of the clear twin over ``samples`` training samples;  margin: times it is still believed.

    A polynomial outside its interval does not fail, it explodes, and no ciphertext shows it: logits do. A light that
    stays dark proves nothing of a sample whose scores are only just outside.
    """

    largest: float
    margin: float
    samples: int

    def __post_init__(self) -> None:
        positive("largest of a limit", self.largest)
        positive("margin of a limit", self.margin)
        whole("samples of a limit", self.samples, 1)

    @property
    def bound(self) -> float:
        """The largest |logit| that is believed."""
        return self.margin * self.largest

    @classmethod
    def of(cls, logits: np.ndarray) -> Limit:
        """Of the clear twin's logits (samples, classes) of training data. UserError where they are not finite."""
        if not np.isfinite(logits).all():
            raise UserError("logits of training data must be finite, and are not: the network leaves its own domain")
        return cls(float(np.abs(logits).max()), MARGIN, len(logits))

    def lights(self, logits: np.ndarray) -> list[str | None]:
        """For each sample of decrypted logits (samples, classes), complex: why it is not believed, or None."""
        return [self._light(row) for row in logits]

    def _light(self, row: np.ndarray) -> str | None:
        if not np.isfinite(row).all():
            return "a logit is no finite number"
        if (worst := float(np.abs(row.real).max())) > self.bound:
            return f"a logit of {worst:.4g} lies beyond {self.bound:.4g}, {self.margin:g} times that of training data"
        if (worst := float(np.abs(row.imag).max())) > NOISE * self.bound:
            return f"a logit has an imaginary part of {worst:.4g}, more than noise"
        return None

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return asdict(self)
