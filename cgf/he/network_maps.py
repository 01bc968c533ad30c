"""Affine forms on ciphertexts: a feature is one combination of lowered sources, and a constant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgf.he.engines.engine import Engine
from cgf.he.network_layout import TokenLayout, rotated, sum_of_tokens
from cgf.network.form import Form
from cgf.network.layers import MEAN
from cgf.types import Ciphertext

State = dict[str, list[Ciphertext]]  # source -> a ciphertext a feature


@dataclass(frozen=True)
class Maps:
    """Evaluates forms on an engine. Levels: one for a form, none for its constant and its pooling."""

    engine: Engine
    layout: TokenLayout

    def lowered(self, cts: Sequence[Ciphertext], level: int) -> list[Ciphertext]:
        """The same at a level, ready for a form."""
        return [self.engine.lower(ct, level) for ct in cts]

    def bring(self, state: State, names: Iterable[str], level: int, again: bool = True) -> None:
        """Sources come down to a level in their places, one after the other; those that are lower stay there.

        again  also those that are at the level already, which makes them ready for a form
        """
        for name in names:
            cts = state[name]
            for place, ct in enumerate(cts):
                if again or self.engine.level(ct) > level:
                    cts[place] = self.engine.lower(ct, min(level, self.engine.level(ct)))

    def rows(self, form: Form, sources: Mapping[str, Sequence[Ciphertext]], turn: int = 0) -> Iterator[Ciphertext]:
        """The form's features, one after the other, of lowered sources that are turned already.

        1. Weights of all sources in a row; those that are zero are left out, all but one.
        2. One combination; of a mean 1 / n goes into the weights, and the tokens are summed.
        3. The constant: a number where all tokens share it, else a vector, turned as the sources are.
        """
        cts = [ct for name in form.terms for ct in sources[name]]
        weights = np.concatenate(list(form.terms.values()), axis=1)
        if form.pool == MEAN:
            weights = weights / self.layout.tokens
        for row, constant, same in zip(weights, form.constant.T, form.same, strict=True):
            kept = np.flatnonzero(row) if row.any() else [0]
            ct = self.engine.combine([cts[i] for i in kept], [float(row[i]) for i in kept])
            if form.pool == MEAN:
                ct = self._mean(ct)
            if not same:
                yield self.engine.add(ct, self.layout.spread(constant, turn))
            else:
                yield self.engine.add(ct, float(constant[0])) if constant[0] else ct

    def _mean(self, ct: Ciphertext) -> Ciphertext:
        samples = self.layout.samples
        return sum_of_tokens(
            self.layout.tokens, ct, lambda total, turn: rotated(self.engine, total, turn, samples), self.engine.add
        )

    def turned(self, ct: Ciphertext, turn: int) -> Ciphertext:
        """Every place holds what the place ``turn`` further held."""
        return rotated(self.engine, ct, turn, self.layout.samples)

    def level(self, form: Form, sources: Mapping[str, Sequence[Ciphertext]]) -> int:
        """The lowest level of a form's sources."""
        return min(self.engine.level(ct) for name in form.terms for ct in sources[name])
