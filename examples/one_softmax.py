"""One softmax of the rows of a matrix under CKKS: python examples/one_softmax.py [--engine sim]"""

from __future__ import annotations

import argparse

import torch

import cgf


def run(rows: int = 256, columns: int = 64, engine: str = "desilo") -> cgf.AppliedSoftmax:
    """CGF-softmax of random scores; prints levels, error and how often the largest weight is where softmax has it."""
    scores = torch.randn(rows, columns)
    result = cgf.apply_softmax(scores, method="cgf", engine=engine)
    exact = torch.softmax(scores, -1)
    same = (torch.from_numpy(result.weights).argmax(-1) == exact.argmax(-1)).double().mean()
    print(f"levels {result.levels}, error {result.error:.1e}, {result.seconds:.2f} s, same largest weight {same:.3f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="desilo", help="desilo encrypts; sim computes the circuit in the clear")
    run(engine=parser.parse_args().engine)
