"""A formula that no circuit can follow is refused before anything is trained with it."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from cgf.approx import series
from cgf.errors import UserError
from cgf.plan.check_formula import check_formula
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.load import DEFINITIONS
from cgf.softmax.published.base import Published, Replacement

QUICK = [cls for cls in DEFINITIONS if not issubclass(cls, Published) or issubclass(cls, Replacement)]


@pytest.mark.parametrize("cls", QUICK, ids=lambda cls: cls.name)
def test_every_softmax_here_passes(cls):
    check_formula(cls())


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        (lambda x: x**4, "TypeError: unsupported operand"),
        (lambda x: x.relu(), "AttributeError: .* no attribute 'relu'"),
        (lambda x: 1.0 - x, "TypeError: unsupported operand"),
        (lambda x: torch.relu(x), "TypeError"),
        (lambda x: x.exp(), "a ciphertext has no exponential"),
        (lambda x: x.clamp(0.0, 1.0), "a ciphertext cannot be cut off"),
    ],
)
@pytest.mark.parametrize("base", [Softmax, ExponentialSoftmax])
def test_what_ciphertexts_lack_is_refused(formula, reason, base):
    what = "formula" if base is Softmax else "exponent"
    members = {what: lambda self, x: formula(x), "name": "own", "__annotations__": {"name": ClassVar[str]}}
    own = dataclass(eq=False)(type("Own", (base,), members))
    with pytest.raises(UserError, match=rf"softmax 'own' cannot be encrypted as it is written \(.*{reason}"):
        check_formula(own())
    own.encryptable = False
    check_formula(own())


@dataclass(eq=False)
class Hinge(Softmax):
    """The square of the ReLU of centred scores, over the row's length."""

    name: ClassVar[str] = "hinge"

    def definition(self, x):
        return x.centred().relu().square().times_count(-1.0)

    def formula(self, x):
        return RELU(x.centred()).square().times_count(-1.0)


RELU = series.relu(-8.0, 8.0, 15)


def test_a_definition_beside_a_formula_is_what_trains_and_the_formula_what_is_compared_with_ciphertexts():
    scores = torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(0)) * 2
    centred = scores - scores.mean(-1, keepdim=True)
    assert torch.allclose(Hinge().weights(scores), centred.relu().square() / 8, atol=1e-6)
    polynomial = RELU(centred.double())
    assert torch.allclose(Hinge().reading(scores).double(), polynomial.square() / 8, atol=1e-6)
    assert not torch.allclose(Hinge().reading(scores), Hinge().weights(scores), atol=1e-4)
    check_formula(Hinge())


@dataclass(eq=False)
class Forgets(Softmax):
    """A quotient over all keys, those that do not count among them."""

    name: ClassVar[str] = "forgets"
    encryptable: ClassVar[bool] = False
    why_not_encryptable: ClassVar[str] = "it divides"
    masked: bool = False
    narrow: bool = False
    late: bool = False
    in_evaluation: bool = False

    def weights(self, scores, valid=None):
        forgets = not self.masked or (self.in_evaluation and not self.training)
        p = scores.exp() if valid is None or forgets or self.late else scores.exp() * valid
        weights = p / p.sum(-1, keepdim=True) * (valid if self.late else 1)
        return weights[..., :1] if self.narrow else weights


def test_weights_that_forget_the_mask_are_refused():
    """A causal model would look ahead, whatever its softmax says of ciphertexts."""
    for forgets in (Forgets(), Forgets(masked=True, narrow=True)):
        with pytest.raises(UserError, match=r"softmax 'forgets' must give weights of the shape .* zero where valid is"):
            check_formula(forgets)
    with pytest.raises(UserError, match="zero where valid is False, and does not"):
        check_formula(Forgets(masked=True, in_evaluation=True))
    with pytest.raises(
        UserError, match="softmax 'forgets' must give weights that do not depend on scores where valid is"
    ):
        check_formula(Forgets(masked=True, late=True))  # the denominator holds what is masked afterwards
    check_formula(Forgets(masked=True))


class Built(Softmax):
    """One with a constructor of its own, which no description of its fields can call."""

    name: ClassVar[str] = "built"
    encryptable: ClassVar[bool] = False

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def weights(self, scores, valid=None):
        weights = scores * self.factor
        return weights if valid is None else weights * valid


def test_a_softmax_with_a_constructor_of_its_own_is_tried_too():
    check_formula(Built(0.5))


def test_a_softmax_of_another_count_of_heads_is_tried_too():
    softmax = ChainCGF(trainable="head")
    softmax.sized(4)
    check_formula(softmax)
    state = torch.random.get_rng_state()
    check_formula(softmax)
    assert torch.equal(torch.random.get_rng_state(), state)
