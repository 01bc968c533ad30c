"""Whether a softmax keeps to its mask: asked before anything is trained with it."""

from __future__ import annotations

import copy

from cgf.errors import UserError
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.published.base import Published

FEW, HEADS = 6, 2  # entries of the rows on which it is tried, and heads


def check_mask(softmax: Softmax) -> None:
    """UserError where ``weights`` are of another shape than the scores, not zero where ``valid`` is False, or, once it
    was trained, depend on the scores there: a causal model would look ahead, and texts would change with their padding.

    Tried on random scores with a causal mask and one of padding. What the base classes compute is masked by them and
    not tried. In training weights may depend on all scores, as BPMax's do by its definition.
    """
    if type(softmax).weights in (Softmax.weights, ExponentialSoftmax.weights, Published.weights):
        return
    import torch

    draw = torch.Generator().manual_seed(0)
    scores, others = (torch.randn(2, HEADS, FEW, FEW, generator=draw) for _ in range(2))
    causal = torch.ones(FEW, FEW, dtype=torch.bool).tril()
    padding = (torch.arange(FEW) < torch.tensor([[FEW], [FEW - 2]]))[:, None, None]
    for valid in (causal, padding):
        own = _untrained(softmax)
        own.sized(HEADS)
        elsewhere = torch.where(valid, scores, others)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            own.training = True  # one that measures denominators does it now
            found = [own.weights(scores, valid)]
            own.training = False
            found += [own.weights(scores, valid), own.weights(elsewhere, valid)]
        kept = valid.expand(scores.shape)
        shaped = all(weights.shape == scores.shape for weights in found)
        if not shaped or any(bool(weights[~kept].ne(0).any()) for weights in found):
            raise UserError(
                f"softmax '{softmax.name}' must give weights of the shape of its scores (B, H, Q, K), zero where valid "
                "is False, and does not"
            )
        if not torch.allclose(found[1], found[2], rtol=1e-4, atol=1e-6):
            raise UserError(
                f"softmax '{softmax.name}' must give weights that do not depend on scores where valid is False, and "
                "does not"
            )


def _untrained(softmax: Softmax) -> Softmax:
    """The same softmax without what was trained, which may be of other heads; a copy where it is built otherwise."""
    try:
        return type(softmax)(**softmax.params())
    except TypeError:
        return copy.deepcopy(softmax)
