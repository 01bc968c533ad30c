"""A network's program on arrays in the clear, in float64: what ciphertexts are held against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cgf.errors import UserError
from cgf.network.form import Form
from cgf.network.layers import LAST, MEAN
from cgf.network.program import INPUT, Attend, Program


@dataclass
class Ranges:
    """What a run in the clear saw: (least, most) exponent y and largest |score| of each attention, largest |u| that is
    squared or multiplied.

    beyond  entries of each (attention, head), both from 0, outside the guard of an exponential that states one
    """

    exponents: dict[str, tuple[float, float]] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    squared: dict[str, float] = field(default_factory=dict)
    beyond: dict[tuple[int, int], int] = field(default_factory=dict)

    def exponent(self, name: str, scores: np.ndarray, y: np.ndarray) -> None:
        """Takes an attention's scores and exponents in."""
        low, high = self.exponents.get(name, (math.inf, -math.inf))
        self.exponents[name] = min(low, float(y.min())), max(high, float(y.max()))
        self.scores[name] = max(self.scores.get(name, 0.0), float(np.abs(scores).max()))


def twin(program: Program, features: np.ndarray, ranges: Ranges | None = None) -> np.ndarray:
    """Logits (samples, classes) of prepared features (samples, tokens, features), by the program's own matrices.

    Error: that of float64. UserError for features of another shape, or that are not finite.
    """
    check_features(program, features)
    sources = {INPUT: np.asarray(features, dtype=np.float64)}
    for step in program.steps:
        if isinstance(step, Attend):
            if step.stream is not None:
                sources[step.stream[0]] = value_of(step.stream[1], sources)
            sources[step.name] = _attend(step, sources, ranges)
        else:
            factors = [value_of(form, sources) for form in step.forms]
            if ranges is not None:
                largest = max(float(np.abs(u).max()) for u in factors)
                ranges.squared[step.name] = max(ranges.squared.get(step.name, 0.0), largest)
            sources[step.name] = factors[0] * factors[-1]
    logits: np.ndarray = value_of(program.logits, sources)[:, 0]
    return logits


def check_features(program: Program, features: np.ndarray) -> None:
    """UserError for prepared features of another shape than (samples, tokens, features), or that are not finite."""
    expected = program.tokens, program.features[INPUT]
    if features.ndim != 3 or features.shape[1:] != expected or not len(features):
        raise UserError(
            f"network '{program.name}' takes features of samples, {expected[0]} tokens and {expected[1]} features, and "
            f"was given {features.shape}"
        )
    if not np.isfinite(features).all():
        raise UserError(f"network '{program.name}' takes finite features, and was given NaN or infinity")


def value_of(form: Form, sources: Mapping[str, np.ndarray]) -> np.ndarray:
    """The value (samples, tokens, width) of a form, or (samples, 1, width) of a pooled one."""
    parts = []
    for name, matrix in form.terms.items():
        source = sources[name]
        if form.pool is not None:
            one = source[:, -1:] if form.pool == LAST else source[:, :1]
            source = source.mean(1, keepdims=True) if form.pool == MEAN else one
        parts.append(source @ matrix.T)
    value: np.ndarray = np.sum(parts, axis=0) + form.constant
    return value


def _attend(step: Attend, sources: Mapping[str, np.ndarray], ranges: Ranges | None) -> np.ndarray:
    """CGF-softmax by the exponential in place: y = x - mean - variance / 2 - ln n, over the n tokens that count."""
    outputs, layer = [], step.layer
    for head in range(layer.heads):
        query, key, value = (value_of(form, sources) for form in step.of_head(head))
        if layer.rotary is not None:
            query, key = layer.rotary.turned(query), layer.rotary.turned(key)
        scores = layer.scaling * query @ key.swapaxes(1, 2)
        valid = np.ones(scores.shape[-2:], dtype=bool)
        valid = np.tril(valid) if layer.causal else valid
        count = valid.sum(-1, keepdims=True)
        centred = np.where(valid, scores - np.where(valid, scores, 0.0).sum(-1, keepdims=True) / count, 0.0)
        y = centred - (centred * centred).sum(-1, keepdims=True) / (2 * count) - np.log(count)
        exponential = layer.of_head(head)
        fit = exponential.fit or layer.exponential.fit  # chains by head state one fit, that of the worst head
        if ranges is not None:
            seen = y[:, valid]
            ranges.exponent(step.name, scores[:, valid], seen)
            if fit is not None:
                (low, high), place = fit.guard, (step.block - 1, head)
                ranges.beyond[place] = ranges.beyond.get(place, 0) + int(((seen < low) | (seen > high)).sum())
        outputs.append(np.where(valid, exponential(y), 0.0) @ value)
    return np.concatenate(outputs, axis=-1)
