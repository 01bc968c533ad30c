"""Squares, polynomials and linear gates: what they compute, where they start, what holds them."""

import numpy as np
import pytest
import torch
from torch.nn.functional import gelu, silu

from cgf.activation.base import least_squares
from cgf.activation.load import activations_from_json
from cgf.activation.polynomial import Polynomial, Polynomials, Products, Square, Squares
from cgf.errors import UserError


def started(variant, function, u):
    made = variant.make(u.shape[-1])
    made.stands_for(function)
    made.starting = True
    made(u)
    made.starting = False
    return made


def values(scale=1.5):
    return torch.randn(64, 8, generator=torch.Generator().manual_seed(0)) * scale


@pytest.mark.parametrize("variant", [Squares(), Polynomials(degree=2), Polynomials(degree=5, bound=6), Products()])
def test_coefficients_are_what_is_computed(variant):
    made = started(variant, gelu, values())
    with torch.no_grad():
        for parameter in made.parameters():  # every feature its own
            parameter.add_(torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)))
    made.eval()
    u = values().double()
    powers = np.stack([u.numpy() ** i for i in range(len(made.coefficients()))])
    own = made.double()(u).detach().numpy()
    np.testing.assert_allclose((powers * made.coefficients()[:, None]).sum(0), own, rtol=1e-6, atol=1e-6)


def test_a_square_starts_as_the_best_fit_of_each_feature_on_what_was_seen():
    u = values() + torch.linspace(-1, 1, 8)
    made = started(Squares(), gelu, u)
    for i in range(8):
        best = np.polyfit(u[:, i].double().numpy(), gelu(u[:, i].double()).numpy(), 2)[::-1]
        np.testing.assert_allclose(made.coefficients()[:, i], best, rtol=1e-3, atol=1e-4)
    assert float(made.bound) == pytest.approx(float(u.abs().max()))


def test_a_stays_away_from_zero():
    made = started(Squares(least=0.05), torch.tanh, values())  # odd: its best a is 0
    assert abs(made.coefficients()[2, 0]) == pytest.approx(0.05)
    with torch.no_grad():
        made.a.copy_(torch.tensor([0.01, -0.01, 0.3, -0.3, 0.0, 0.05, -0.05, 1.0]))
    kept = made.a.clone()
    made.eval()
    made(values())
    assert torch.equal(made.a, kept)  # an evaluation changes nothing
    made.hold()
    assert made.a.tolist() == pytest.approx([0.05, -0.05, 0.3, -0.3, 0.05, 0.05, -0.05, 1.0])
    made.train()
    with torch.no_grad():
        made.a.zero_()
    made(values())
    assert (made.a.abs() >= 0.05 - 1e-9).all()


def test_a_polynomial_is_cut_off_in_training_alone():
    made = started(Polynomials(degree=4, bound=3.0, above=0.0), silu, values())
    u = torch.full((1, 8), 30.0)
    assert torch.equal(made.train()(u), made(torch.full((1, 8), 3.0)))
    assert (made.eval()(u).abs() > 1e3).all()
    errors = [
        float((started(Polynomials(degree=d, bound=4.0), silu, values(1.0))(x := values(1.0)) - silu(x)).abs().max())
        for d in (2, 4, 8)
    ]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.02


def test_one_that_waits_computes_the_hosts_own_in_training():
    made = started(Squares(), gelu, values())
    made.waits = True
    assert torch.equal(made.train()(values()), gelu(values()))
    assert not torch.equal(made.eval()(values()), gelu(values()))


def test_half_precision_is_computed_in_single():
    made = started(Squares(), gelu, values())
    u = values().bfloat16()
    assert made(u).dtype == torch.bfloat16
    torch.testing.assert_close(made(u), made(u.float()).bfloat16(), atol=0, rtol=0)


def test_observers_see_the_inputs_of_training_and_their_interval():
    made, seen = started(Squares(bound=2.0), gelu, values()), []
    made.observers.append(lambda part, u, interval: seen.append((u.shape, interval)))
    made.train()(values())
    made.eval()(values())
    assert seen == [((64, 8), (-2.0, 2.0))]


def test_the_fit_bears_values_that_do_not_vary():
    columns = torch.ones(5, 2, 3, dtype=torch.float64)
    fit = least_squares(columns, torch.full((5, 2), 6.0, dtype=torch.float64))
    torch.testing.assert_close(fit, torch.full((2, 3), 2.0, dtype=torch.float64), rtol=1e-5, atol=0)  # the least one
    still = values()
    still[:, 0] = 0.3
    for u in (torch.zeros(4, 8), still):
        for variant in (Squares(), Polynomials(), Products()):
            made = started(variant, gelu, u)
            assert np.abs(made.coefficients()).max() < 10
            assert float(made(u)[0, 0].detach()) == pytest.approx(float(gelu(u[0, 0])), abs=0.02)


def test_variants_come_back_from_their_descriptions():
    for variant in (Squares(least=0.1, bound=3.0), Polynomials(degree=6, keep=["a.b"]), Products()):
        assert activations_from_json(variant.to_json(), "activation.json") == variant
    assert (Square(3).coefficients().shape, Polynomial(3, 4).coefficients().shape) == ((3, 3), (5, 3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variant": "cube"}, "one of exact, square, polynomial, product"),
        ({"variant": "square", "least": 0}, "above 0"),
        ({"variant": "square", "bound": -1.0}, "activation.bound"),
        ({"variant": "polynomial", "degree": 1}, "from 2 to 32"),
        ({"variant": "polynomial", "degree": 10**9}, "from 2 to 32"),
        ({"variant": "square", "keep": [""]}, "names of modules"),
    ],
)
def test_what_a_file_says_of_activations_is_checked(given, message):
    with pytest.raises(UserError, match=message):
        activations_from_json(given, "activation.json")
