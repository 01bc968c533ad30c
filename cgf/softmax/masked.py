"""Whether a softmax keeps to its mask: asked before anything is trained with it."""

from __future__ import annotations

import copy

import torch

from cgf.errors import UserError
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.published.base import Published

FEW = 8  # entries of the rows on which it is tried


def check_mask(softmax: Softmax) -> None:
    """UserError where ``weights`` are of another shape than the scores, or not zero where ``valid`` is False: a causal
    model would look ahead, and texts would change with their padding. What the base classes compute is masked by them.
    """
    if type(softmax).weights in (Softmax.weights, ExponentialSoftmax.weights, Published.weights):
        return
    own, scores = copy.deepcopy(softmax), torch.linspace(-2.0, 2.0, 2 * 2 * FEW * FEW).reshape(2, 2, FEW, FEW)
    own.sized(2)
    own.training = True  # one that measures denominators does it now
    valid = torch.ones(FEW, FEW, dtype=torch.bool).tril()
    with torch.no_grad():
        weights = own.weights(scores, valid)
    if weights.shape != scores.shape or bool(weights.masked_select(~valid).ne(0).any()):
        raise UserError(
            f"softmax '{softmax.name}' must give weights of the shape of its scores (B, H, Q, K), zero where valid is "
            "False, and does not"
        )
