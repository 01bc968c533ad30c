"""Values on the simulator, packed as a circuit has them, and what a circuit takes of it."""

from dataclasses import replace

import numpy as np

from cgf.he.engines.count import Counting
from cgf.he.engines.engine import ENDLESS
from cgf.he.engines.sim import SimEngine, SimOwner
from cgf.he.layout import Layout
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows


def packed(values):
    """One value a row, in one ciphertext, on the simulator without an end."""
    owner = SimOwner(60, rings=(ENDLESS,))
    layout = Layout(len(values), 1, owner.slots, owner.slots)
    rows = Rows((1, 1, len(values), 1), 0, None, np.ones(len(values)))
    return Packed(Counting(SimEngine(60, rings=(ENDLESS,))), layout, rows, (owner.encrypt(values, 60),))


def simulate(run, x):
    """(values, levels used, products of two ciphertexts) of a circuit on the simulator."""
    first = packed(x)
    owner = SimOwner(60, rings=(ENDLESS,))
    got = run(x, lambda values: replace(first, cts=(owner.encrypt(values, 60),))).relinearized()
    return got.cts[0].values[: len(x)], 60 - got.level, first.engine.ops["cmult"]
