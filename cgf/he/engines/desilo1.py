"""An older desilofhe, 1.17.0 with its bootstrap, for the noise figures alone."""

from __future__ import annotations

from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.desilo_library import vendor
from cgf.he.engines.engine import Ring, ring_for


class Desilo1Owner(DesiloOwner):
    """desilofhe 1.17.0 with use_bootstrap=True: 26 levels, 32,768 slots, and the least noise.

    The engine of the CGF-softmax paper's time, for the noise figures alone: a square of [-1, 1] is off by 7e-12 at
    most, where the engines of 2.0.0 (and all others of 1.x) are off by 2e-8 to 1e-7. Needs desilofhe==1.17.0 in an
    environment of its own (scripts/bench/noise_engines.sh). Its rotations roll to the right.
    """

    rings = (Ring(32768, 26, 25),)
    _left = -1

    def __init__(self, max_level: int) -> None:
        ring_for(max_level, self.rings)
        self._make_keys(vendor("1.17.0").Engine(use_bootstrap=True, mode="cpu"), max_level)
