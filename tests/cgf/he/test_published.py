"""The published methods: polynomial reading = circuit on engines = (within its bound) the plaintext definition."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from cgf.errors import UserError  # noqa: E402
from cgf.he.dryrun import depth, dry_run  # noqa: E402
from cgf.he.encrypted import Encrypted  # noqa: E402
from cgf.he.engines.engine import BOOTSTRAPPABLE  # noqa: E402
from cgf.he.engines.sim import SimEngine, SimOwner  # noqa: E402
from cgf.he.layout import Layout  # noqa: E402
from cgf.he.packed import Packed  # noqa: E402
from cgf.he.score_rows import Rows  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.softmax.published.base import Published  # noqa: E402
from cgf.softmax.published.comparison import Comparison, extend_domain  # noqa: E402
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor  # noqa: E402
from cgf.softmax.published.quotient import Power, Quad  # noqa: E402
from cgf.softmax.published.standard import FixedMax, Standard  # noqa: E402
from cgf.softmax.published.statistical import Arion, Tricycle  # noqa: E402

N = 16
# each with scores (in its domain) of N entries a row; sizes that a test can afford
CASES = {
    "standard": (Standard(low=-5, high=5, n=N, least=4, most=400, iterations=7), 1.2, 0.0),
    "standard-plain": (Standard(low=-5, high=5, n=N, least=4, most=400, iterations=9, recentre=False), 1.2, 0.0),
    "fixed_max": (FixedMax(shift=5, low=-6, n=N, r=6, least=0.1, iterations=8), 1.0, 0.0),
    "arion": (Arion(n=N), 1.0, 0.0),
    "tricycle": (Tricycle(n=N, iterations=7), 1.5, 0.0),
    "cho": (NormalizeSquare(bound=16, n=N), 3.0, -8.0),
    "thor": (Thor(n=N), 5.0, 10.0),
    "hetal": (Comparison(n=N, extensions=2, gs=4, iterations=6), 3.0, 0.0),
    "power": (Power(least=1, most=2048, iterations=8), 1.3, 0.0),
    "quad": (Quad(least=64, most=4096, iterations=6), 1.3, 0.0),
}
LEVELS = {
    "standard": 12,
    "standard-plain": 14,
    "fixed_max": 14,
    "arion": 22,
    "tricycle": 18,
    "thor": 19,
    "power": 10,
    "quad": 7,
}


class DeepOwner(SimOwner):
    """The simulator of the engine that bootstraps; values beyond what it holds are an error."""

    rings = (BOOTSTRAPPABLE,)

    def __init__(self, max_level):
        super().__init__(max_level, outside="raise", rings=self.rings)


def case(name, rows=24, seed=0):
    softmax, scale, mean = CASES[name]
    x = np.random.default_rng(seed).standard_normal((1, 2, rows // 2, N)) * scale + mean
    if name == "cho":
        x = np.clip(x, -16, 0)
    return softmax, torch.from_numpy(x)


def by_hand(softmax, x):
    """The plaintext definition in numpy."""
    x = np.asarray(x)
    e = (x + softmax.c) ** softmax.p if isinstance(softmax, Power) else np.exp(x - x.max(-1, keepdims=True))
    return e / (e.sum(-1, keepdims=True) + (softmax.eps if isinstance(softmax, Power) else 0.0))


@pytest.mark.parametrize("name", CASES)
def test_weights_are_the_definition_and_the_reading_is_within_its_bound(name):
    softmax, x = case(name)
    np.testing.assert_allclose(softmax.weights(x), by_hand(softmax, x), atol=1e-12)
    worst = np.abs(softmax.reading(x) - by_hand(softmax, x)).max()
    bound = softmax.error_bound()
    assert worst <= bound + 1e-12
    assert 0 < bound < 0.5  # a bound that says something


@pytest.mark.parametrize("name", CASES)
def test_the_circuit_on_the_simulator_is_the_reading(name):
    softmax, x = case(name)
    deep = name in ("cho", "hetal")
    session = Session(DeepOwner if deep else lambda max_level: SimOwner(max_level, outside="raise"))
    encrypted = Encrypted(softmax, session)
    got = encrypted.weights(x)
    np.testing.assert_allclose(got, softmax.reading(x), atol=1e-9)
    if not deep:
        assert encrypted.record.levels == encrypted.record.levels_counted == LEVELS[name]


@pytest.mark.parametrize("name", ["standard", "tricycle", "hetal", "power", "quad"])
def test_masked_rows(name):
    softmax, x = case(name)
    valid = torch.ones(1, 1, x.shape[2], N, dtype=torch.bool)
    valid[..., 2:, 9:] = False
    session = Session(DeepOwner if name == "hetal" else SimOwner)
    got = Encrypted(softmax, session).weights(x, valid)
    np.testing.assert_allclose(got, softmax.reading(x, valid), atol=1e-9)
    keep = valid[0, 0, 2]
    truth = by_hand(softmax, x[..., 2:, keep])
    np.testing.assert_allclose(got[..., 2:, keep], truth, atol=softmax.error_bound() + 1e-12)
    assert not got[..., ~keep][..., 2:, :].any()


SLOW = pytest.mark.skipif(not os.environ.get("CGF_SLOW"), reason="half a minute to a minute in 2^15 slots (CGF_SLOW=1)")


@pytest.mark.parametrize(
    "name",
    [
        "standard",
        "fixed_max",
        "power",
        "quad",
        pytest.param("thor", marks=SLOW),  # its keys take 2.8 GiB
        pytest.param("tricycle", marks=SLOW),
        pytest.param("arion", marks=SLOW),
    ],
)
@pytest.mark.usefixtures("no_kept_owners")
def test_real_ciphertexts_agree_with_the_reading(owner_of, name):
    softmax, x = case(name)
    encrypted = Encrypted(softmax, Session(lambda max_level: owner_of("desilo", max_level)))
    got = encrypted.weights(x)
    assert np.abs(got - softmax.reading(x)).max() < (5e-3 if name == "arion" else 1e-4)
    assert encrypted.record.levels == LEVELS[name]


def test_depths_without_an_end():
    """Levels of the published settings at their published sizes, as the circuits count them."""
    rows = {n: Rows((1, 1, 256, n), 0, None, np.full(256, float(n))) for n in (128, 256)}
    cho = depth(NormalizeSquare(bound=128, n=256), rows[256], 256)
    rounds = NormalizeSquare(bound=128, n=256).degrees
    assert len(rounds) == 5
    assert cho.levels == 4 + sum(d.bit_length() + 3 for d in rounds) + 2
    assert cho.ops["rotate"] == 7 * (5 + 2)  # 128 columns a ciphertext
    assert depth(Standard(iterations=9), rows[128], 128).levels == 4 + 1 + 9
    hetal = depth(Comparison(n=128), rows[128], 128)
    assert hetal.levels > 250 and hetal.ops["boot"] == 0


def test_bootstraps_where_levels_run_out():
    rows = Rows((1, 1, 256, 256), 0, None, np.full(256, 256.0))
    needs = dry_run(NormalizeSquare(bound=128, n=256), rows, 256, "folded")
    assert needs.bootstrap and needs.ops["boot"] == 2  # two ciphertexts ride in each


def test_bootstraps_are_refused_without_their_keys():
    x = torch.from_numpy(np.random.default_rng(0).uniform(-128, 0, (1, 1, 4, 256)))
    session = Session(SimOwner)
    with pytest.raises(UserError, match=r"'cho' needs bootstraps here.*he\.owner\.bootstrap=small"):
        Encrypted(NormalizeSquare(bound=128, n=256), session).weights(x)


@pytest.mark.parametrize("k", [1, 3])
def test_normalize_and_square_at_the_ends_of_its_domain(k):
    softmax = NormalizeSquare(bound=8.0 * 2**k, n=N, k=k)
    rows = np.zeros((1, 1, 4, N))
    rows[0, 0, 1] = -softmax.bound
    rows[0, 0, 2, 1:] = -softmax.bound
    rows[0, 0, 3, ::2] = -softmax.bound / 3
    got = softmax.reading(torch.from_numpy(rows))
    assert np.abs(got - by_hand(softmax, rows)).max() <= softmax.error_bound()


def test_domain_extension_keeps_what_is_near_the_maximum():
    x = np.linspace(-1, 0, 5001)
    y = extend_domain(x, 5)  # 1 unit of x = 2 R = 32 radii
    assert y.min() >= -1.0001 and np.abs(y - 32 * x)[x > -0.2 / 32].max() < 2e-3


def test_one_comparison():
    softmax = Comparison(gs=5, fs=3)
    a, b = (np.random.default_rng(s).uniform(-0.5, 0.5, 500) for s in (1, 2))
    owner, engine = SimOwner(17, rings=(BOOTSTRAPPABLE,)), SimEngine(17, rings=(BOOTSTRAPPABLE,))
    layout = Layout(500, 1, owner.slots, owner.slots)
    rows = Rows((1, 1, 500, 1), 0, None, np.ones(500))
    va, vb = (Packed(engine, layout, rows, (owner.encrypt(v, 17),), is_row=True) for v in (a, b))
    got = owner.decrypt(softmax.greater(va, vb).relinearized().cts[0])[:500]
    far = np.abs(a - b) > 0.01
    np.testing.assert_allclose(got[far], np.maximum(a, b)[far], atol=1e-5)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: NormalizeSquare(bound=-1), "bound > 0"),
        (lambda: NormalizeSquare(n=16, fewest=17), "fewest entries of 1 to n = 16, and has 17"),
        (lambda: NormalizeSquare(degrees=(15, 15)), r"one degree a round, 5, and has \[15, 15\]"),
        (lambda: Thor(temperature=3), "power of two from 2, and has 3"),
        (lambda: Standard(low=1, high=0), r"low < high, and has \[1, 0\]"),
        (lambda: Power(p=3), "positive even power"),
        (lambda: Comparison(fs=0), "fs >= 1"),
    ],
)
def test_bad_settings_are_named(make, says):
    with pytest.raises(UserError, match=says):
        make()


def test_every_published_method_says_where_it_comes_from():
    for softmax, *_ in CASES.values():
        assert isinstance(softmax, Published) and softmax.source
        assert softmax.maximum in ("comparison", "fixed", "bound", "none")
        low, high = softmax.domain
        assert low < high


def test_the_engine_that_bootstraps_is_never_built_smaller():
    rows = Rows((1, 1, 256, 256), 0, None, np.full(256, 256.0))
    needs = dry_run(NormalizeSquare(bound=5.5, n=256, k=1), rows, 256, "folded", rings=(BOOTSTRAPPABLE,))
    assert needs.max_level == BOOTSTRAPPABLE.max_level and needs.ops["boot"] == 0
