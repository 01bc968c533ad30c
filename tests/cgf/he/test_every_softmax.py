"""Every softmax of configs/softmax that can be encrypted, at the numbers of its yaml: simulator = reading in the clear.

Nothing here names a yaml: a new one is run as it stands, and fails where these scores do not suit it.
"""

import functools
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from hydra.utils import instantiate  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

from cgf.approx import fit  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he.dryrun import dry_run  # noqa: E402
from cgf.he.encrypted import Encrypted, flatten  # noqa: E402
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.score_rows import Rows  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.softmax.bpmax import BPMax  # noqa: E402
from cgf.softmax.published.base import Published  # noqa: E402

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "softmax").glob("*.yaml"))
B, H, Q, SMALL = 2, 3, 4, 7
# on the interval that these scores put y in; found by no search, so that no test waits for one
EXPONENTIALS = {
    "chain": lambda: fit.chain(-24.0, 3.0, 4),
    "chebyshev": lambda: fit.chebyshev(-24.0, 3.0, 15, 1),
    "limit": lambda: fit.limit(-24.0, 3.0, 7),
}


def built(path):
    return instantiate(OmegaConf.load(path))


def cases():
    """(yaml, method of the exponential put in place, or None)."""
    for path in CONFIGS:
        softmax = built(path)
        if softmax.encryptable:
            stands_in = softmax.uses_exponential and softmax.exponential is None
            yield from (
                pytest.param(path, method, id=path.stem if method is None else f"{path.stem}-{method}")
                for method in (EXPONENTIALS if stands_in else [None])
            )


def masks(n):
    """None, causal queries whose last sees all n keys, and a first sample padded to its half: full, causal, padded."""
    last = torch.linspace(0, n - 1, Q).long()
    length = torch.tensor([(n + 1) // 2, n])
    return {
        "full": None,
        "causal": torch.arange(n) <= last[:, None],
        "padded": (torch.arange(n) < length[:, None])[:, None, None],
    }


def scores(softmax, n, seed=0):
    """(B, H, Q, n) of random queries and keys, moved into the interval of scores that the softmax states, if any."""
    rng = np.random.default_rng(seed)
    query, key = (torch.from_numpy(rng.standard_normal((B, H, length, 16))) for length in (Q, n))
    x = softmax.scores(query, key, 16**-0.5)
    if not isinstance(softmax, Published) or softmax.maximum == "bound":  # of no scores, or of those less their maximum
        return x
    low, high = softmax.domain
    return (x + (high - 3.5 if softmax.maximum == "fixed" else (low + high) / 2)).clamp(low, high)


def owner_for(softmax, x, valid):
    """The simulator of the engine that the circuit needs; values beyond what it holds are an error."""
    _, mask, counts, shape = flatten(x, valid)
    needs = dry_run(softmax, Rows(shape, 0, mask, counts), shape[-1], "folded")
    rings = (BOOTSTRAPPABLE,) if needs.bootstrap else RINGS

    def make(max_level):
        return SimOwner(max_level, outside="raise", rings=rings)

    make.rings = rings
    return make


def prepared(path, method, n):
    """The softmax of a yaml as it is evaluated: with its exponential, or the denominators of a training batch."""
    softmax = built(path)
    if method is not None:
        softmax.exponential = EXPONENTIALS[method]()
    if isinstance(softmax, BPMax):
        softmax.training = True
        softmax.weights(scores(softmax, n, seed=1), masks(n)["causal"])
        softmax.training = False
        assert softmax.denominator.std((1, 2)).min() > 0 and softmax.denominator.std(0).min() > 0  # all differ
    return softmax


@pytest.mark.parametrize("path, method", cases())
def test_the_simulator_is_the_reading_in_the_clear(path, method):
    largest = getattr(built(path), "n", 128)
    for n in (SMALL, largest):
        softmax = prepared(path, method, n)
        x = scores(softmax, n)
        for name, valid in masks(n).items():
            encrypted = Encrypted(softmax, Session(owner_for(softmax, x, valid)))
            weights, wanted = encrypted.weights(x, valid), softmax.reading(x, valid)
            off = float((weights - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
            assert off < 1e-9, f"{n} columns, {name}"
            record = encrypted.record
            assert record.levels == record.levels_counted > 0, f"{n} columns, {name}"
            assert record.entries == int(valid.expand(x.shape).sum() if valid is not None else x.numel())
            assert float(wanted.abs().max()) > 1e-3 and not record.ruined
            if method is not None:
                assert record.outside == record.beyond == 0, "the scores must lie where the polynomial is exp"


@pytest.mark.parametrize("path", [p for p in CONFIGS if isinstance(built(p), Published)], ids=lambda p: p.stem)
def test_on_the_engine_that_bootstraps_no_slot_is_too_large_for_it(path):
    """Rows of which one entry has nearly all the weight too: what is refreshed must lie within [-1, 1]."""
    softmax = built(path)
    n = getattr(softmax, "n", 128)
    typical = scores(softmax, n)
    low, high = softmax.domain
    peaked = typical.clamp(max=high - 0.6 * (high - low))
    peaked[..., 0] = high
    owner = functools.partial(SimOwner, outside="raise", bootstrap="small")
    for x in (typical, peaked) if softmax.maximum in ("fixed", "comparison") else (typical,):
        for valid in masks(n).values():
            encrypted = Encrypted(softmax, Session(owner))
            try:
                weights = encrypted.weights(x, valid)
            except UserError as error:
                assert "needs more levels than the largest ring holds (17), and does not bootstrap" in str(error)
                continue
            assert float((weights - softmax.reading(x, valid)).abs().max()) < 1e-9


def test_what_cannot_be_encrypted_says_why():
    refused = [softmax for softmax in map(built, CONFIGS) if not softmax.encryptable]
    assert [softmax.name for softmax in refused] == ["exact"] and all(s.why_not_encryptable for s in refused)
