"""Laws of scores whose moments are known, and the paper's Berry-Esseen bound on the relative error."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

C = 2 * 0.4748  # twice the best known constant of Berry and Esseen for i.i.d. sums (Shevtsova 2011)


@dataclass
class Moments:
    """mean, sd and E|Y - mean|^3 of Y = exp(X), and K = ln mean."""

    mean: float
    sd: float
    third: float

    @property
    def K(self):
        return math.log(self.mean)

    def correction(self, n):
        return self.third / self.sd**3 / math.sqrt(n)

    def tail(self, delta, n):
        """2 [1 - Phi(delta mean sqrt(n) / sd)]"""
        return math.erfc(delta * self.mean * math.sqrt(n) / self.sd / math.sqrt(2))

    def bound(self, delta, n, constant=C):
        return self.tail(delta, n) + constant * self.correction(n)


@dataclass
class Law:
    """A law of X: its moment generating function, density on an interval that holds all but 1e-12, sampler."""

    mgf: Callable
    density: Callable
    interval: tuple
    draw: Callable

    def moments(self):
        mean, second = self.mgf(1), self.mgf(2)
        cuts = np.unique(np.clip([*np.linspace(*self.interval, 60), math.log(mean), 0.0], *self.interval))
        nodes, weights = np.polynomial.legendre.leggauss(40)  # pieces that end at the kinks of the integrand
        half, middle = np.diff(cuts)[:, None] / 2, (cuts[1:] + cuts[:-1])[:, None] / 2
        x = middle + half * nodes
        third = (half * weights * np.abs(np.exp(x) - mean) ** 3 * self.density(x)).sum()
        return Moments(mean, math.sqrt(second - mean**2), float(third))


def normal(m, s):
    return Law(
        lambda t: math.exp(m * t + s * s * t * t / 2),
        lambda x: np.exp(-(((x - m) / s) ** 2) / 2) / (s * math.sqrt(2 * math.pi)),
        (m - 12 * s, m + 12 * s + 3 * s * s),
        lambda g, shape: g.normal(m, s, shape),
    )


def uniform(a):
    return Law(
        lambda t: math.sinh(a * t) / (a * t),
        lambda x: np.full_like(x, 1 / (2 * a)),
        (-a, a),
        lambda g, shape: g.uniform(-a, a, shape),
    )


def laplace(b):
    return Law(
        lambda t: 1 / (1 - (b * t) ** 2),
        lambda x: np.exp(-np.abs(x) / b) / (2 * b),
        (-60 * b, 100 * b),
        lambda g, shape: g.laplace(0, b, shape),
    )


def exponential(rate, start):
    return Law(
        lambda t: math.exp(start * t) * rate / (rate - t),
        lambda x: rate * np.exp(-rate * (x - start)),
        (start, start + 60 / (rate - 3)),
        lambda g, shape: start + g.exponential(1 / rate, shape),
    )


def two_points(a, p, m):
    """X = m + a with probability p, else m - a."""
    high, low = math.exp(m + a), math.exp(m - a)
    spread, q = high - low, 1 - p
    return Moments(p * high + q * low, math.sqrt(p * q) * spread, p * q * (p * p + q * q) * spread**3)
