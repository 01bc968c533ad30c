"""A value of a network as an affine form of sources: whatever is affine folds into its matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cgf.network.layers import LAST, MEAN

ROUNDING = 1e-12  # of a form's largest constant: four digits above float64's own, four below the noise of CKKS


@dataclass(frozen=True, eq=False)
class Form:
    """A value (samples, tokens, width) as an affine form of sources: the sum of matrix @ source, and a constant.

    terms     source -> (width, features of the source);  constant: (tokens, width), or (1, width) behind a pooling
    pool      'mean': the value is the mean over tokens of that; 'first' or 'last': that token's; None: each token's own
    """

    terms: dict[str, np.ndarray]
    constant: np.ndarray
    pool: str | None = None

    @property
    def width(self) -> int:
        """Features of the value."""
        return int(self.constant.shape[1])

    @property
    def features(self) -> int:
        """Features of all sources together: the products of one of the value's features."""
        return sum(matrix.shape[1] for matrix in self.terms.values())

    @property
    def same(self) -> np.ndarray:
        """(width,) bool: whether all tokens have one constant, but for what products of matrices round.

        They round the last rows of an odd number of tokens otherwise than the rest.
        """
        shared: np.ndarray = np.ptp(self.constant, axis=0) <= ROUNDING * np.abs(self.constant).max(initial=0.0)
        return shared

    def mapped(self, weight: np.ndarray, bias: np.ndarray) -> Form:
        """weight @ value + bias."""
        return replace(
            self,
            terms={name: weight @ matrix for name, matrix in self.terms.items()},
            constant=self.constant @ weight.T + bias,
        )

    def scaled(self, scale: np.ndarray, shift: np.ndarray) -> Form:
        """scale value + shift, feature by feature."""
        return replace(
            self,
            terms={name: scale[:, None] * matrix for name, matrix in self.terms.items()},
            constant=self.constant * scale + shift,
        )

    def times(self, factor: float) -> Form:
        """factor value."""
        return self.scaled(np.full(self.width, factor), np.zeros(self.width))

    def rows(self, chosen: slice) -> Form:
        """Some of the value's features."""
        terms = {name: matrix[chosen] for name, matrix in self.terms.items()}
        return replace(self, terms=terms, constant=self.constant[:, chosen])

    def of_source(self, source: str, chosen: slice, rest: bool) -> Form:
        """The part of the value that some features of a source make; rest: and all other sources, and the constant."""
        terms = {
            name: matrix[:, chosen] if name == source else matrix
            for name, matrix in self.terms.items()
            if rest or name == source
        }
        return replace(self, terms=terms, constant=self.constant if rest else np.zeros_like(self.constant))

    def plus(self, other: Form) -> Form:
        """The sum of two values of as many features."""
        assert self.pool == other.pool
        terms = dict(self.terms)
        for name, matrix in other.terms.items():
            terms[name] = terms[name] + matrix if name in terms else matrix
        return replace(self, terms=terms, constant=self.constant + other.constant)

    def pooled(self, kind: str) -> Form:
        """One token of all; the constant is pooled at once."""
        one = self.constant[-1:] if kind == LAST else self.constant[:1]
        constant = self.constant.mean(0, keepdims=True) if kind == MEAN else one
        return replace(self, constant=constant, pool=kind)

    @classmethod
    def of(cls, source: str, width: int, tokens: int) -> Form:
        """A source itself."""
        return cls({source: np.eye(width)}, np.zeros((tokens, width)))
