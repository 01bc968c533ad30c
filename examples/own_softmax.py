"""A softmax of your own, by operators, on a tensor and under CKKS: python examples/own_softmax.py [--engine sim]"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import ClassVar

import torch

import cgf


@dataclass(eq=False)
class Parabola(cgf.Softmax):
    """(x + c)^2 / c^2: a toy without an exponential. docs/guides/own-softmax.md says how commands get to know one."""

    name: ClassVar[str] = "parabola"
    c: float = 5.0

    def formula(self, x):
        """What ``+ - *``, ``square``, ``row_sum`` and the others of cgf/softmax/value.py make of the scores."""
        return (x + self.c).square() * (1 / self.c**2)


def run(rows: int = 64, columns: int = 32, engine: str = "desilo") -> cgf.AppliedSoftmax:
    """The parabola of random scores, through ciphertexts; prints how far it is from the formula itself."""
    scores = torch.randn(rows, columns)
    result = cgf.apply_softmax(scores, Parabola(), engine)
    away = (torch.from_numpy(result.weights) - (scores.double() + 5.0) ** 2 / 25.0).abs().max()
    print(f"levels {result.levels}, {result.seconds:.2f} s, largest difference from the formula {away:.1e}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="desilo", help="desilo encrypts; sim computes the circuit in the clear")
    run(engine=parser.parse_args().engine)
