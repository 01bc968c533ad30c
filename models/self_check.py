"""Whether a host with replaced softmaxes computes what it computed before: measured when the host is made.

One small batch goes through the untouched model, and through the model with a softmax in every attention that is exact
and made of other operations than torch's own. There every attention is given what it was given in the untouched model,
so that rounding does not add up over layers. The weights, the modes and the random numbers stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.install import attention_modules, installed
from cgf.models.operation_watch import OperationWatch
from cgf.models.probe import CHANGED, REAL, long_text, probe_batch, running
from cgf.models.replace import parts_of, probing
from cgf.models.row_kind import AttentionInput, RowKind, row_kind
from cgf.models.transformers_attention import window
from cgf.softmax.base import Softmax

TOLERANCE = 1e-5  # of the largest number compared, in float32, of one attention
LEAK = 1e-4  # the same for two samples of a batch, whose rounding has gone through all layers
EXACT = ("softmax", "scaled_dot_product", "multi_head_attention", "transformer_encoder_layer")  # torch's operations
Output = Tensor | tuple[Tensor, ...]  # of an attention: with its weights, or without


def checked(host: Host, causal: bool | None = None) -> Host:
    """The host, with ``causal`` measured; causal: what its adapter reads alone, None: either.

    Raises UserError, with the name of the model, where the adapter reads other hosts, or another softmax put in would
    change more than the weights of the attention, or less.
    """
    try:
        _check(host, causal)
    except UserError as error:
        raise UserError(f"model={host.name} cannot be taken as a host: {error}") from None
    return host


@dataclass(eq=False)
class IndependentExact(Softmax):
    """An exact softmax without torch's: what else computes one shows.

    valid  the mask that it was given, None before a batch came
    """

    name: ClassVar[str] = "stand"
    batch: int = field(default=0, init=False)  # samples, 0 before any came
    valid: Tensor | None = field(default=None, init=False)

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Exact weights (B, H, Q, K); the batch and its mask are kept."""
        self.batch, self.valid = len(scores), None if valid is None else valid.expand(scores.shape)
        kept = scores if valid is None else scores.masked_fill(~valid, torch.finfo(scores.dtype).min)
        powers = (kept - kept.amax(-1, keepdim=True)).exp()
        powers = powers if valid is None else powers * valid
        return powers / powers.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)


def _check(host: Host, wanted: bool | None) -> None:
    device = next(host.model.parameters()).device
    with running("as it is"):
        batch = {name: tensor.to(device) for name, tensor in probe_batch(host).items()}
    # replaced norms and activations compute the host's own functions here: random pixels are no data of theirs
    own = probing(parts_of(host.model))
    with torch.random.fork_rng(devices=[]), evaluating(host.model), torch.no_grad(), own:
        kind, logits, given = _compared(host, batch)
        host.causal, host.window = kind.causal, kind.window
        if wanted is not None and host.causal != wanted:
            what, which = ("is causal", "llama") if host.causal else ("looks ahead", "bert")
            raise UserError(f"{type(host.model).__name__} {what}, and cgf.models.{which}.load reads such models")
        if "input_ids" in batch:
            _own_head(host, batch, logits)
            _looks({name: _first(output) for name, output in given.items()}, logits, host.causal)
        if (long := long_text(host, batch)) is not None:
            _compared(host, long)


def _compared(host: Host, batch: dict[str, Tensor]) -> tuple[RowKind, Tensor, dict[str, Output]]:
    """The kind of rows, and logits and outputs of the untouched model; UserError where exact softmax gives others."""
    names = [name for name, _ in attention_modules(host.model)]
    given: dict[str, Output] = {}
    with running("as it is"), _hooked(host.model, names, lambda name, output: given.update({name: output})):
        logits = host.forward(host.model, batch)
    if not bool(logits.isfinite().all()):
        raise UserError(
            "it gives no finite logits of a small batch as it is: a weight of it is no number, or too large"
        )
    with installed(host.model, lambda _: IndependentExact()) as stands:
        unreplaced = OperationWatch(host.model, EXACT)
        mask = batch.get("attention_mask")
        same = _hooked(host.model, names, lambda name, output: _same(name, given[name], output, mask))
        with running("with its softmax replaced"), same, unreplaced.watching():
            after = host.forward(host.model, batch)
        windows = [window(host.model.get_submodule(name)) for name in names]
    seen = [
        AttentionInput(stand.batch, None if stand.valid is None else stand.valid[0], width)
        for stand, width in zip(stands, windows, strict=True)
    ]
    kind = row_kind(names, seen, len(logits))
    if unreplaced.places:
        raise UserError(f"a softmax is not replaced and would stay exact: {unreplaced.places[0]}")
    if distance(logits, after) > TOLERANCE:
        raise UserError(
            "with every softmax replaced by an exact one its logits are others than before (by "
            f"{distance(logits, after):.1e} of the largest)"
        )
    return kind, logits, given


@contextmanager
def _hooked(model: nn.Module, names: list[str], hook: Callable[[str, Output], Output | None]) -> Iterator[None]:
    """hook(name, output) at each of these modules; what it returns, if not None, takes the output's place."""
    handles = [
        model.get_submodule(name).register_forward_hook(lambda _, __, output, name=name: hook(name, output))
        for name in names
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _same(name: str, before: Output, after: Output, mask: Tensor | None) -> Output:
    """The output of an attention in the untouched model, for what follows; UserError if it is another than now."""
    own, other = (_real(_first(output), mask) for output in (before, after))
    if distance(own, other) > TOLERANCE:
        raise UserError(
            f"with its softmax replaced by an exact one, {name} gives other numbers than before (by "
            f"{distance(own, other):.1e} of the largest): it does more with its scores than a softmax"
        )
    return before


def _own_head(host: Host, batch: dict[str, Tensor], logits: Tensor) -> None:
    """A text's logits are those of the model's own classifier, on texts without padding."""
    if "input_ids" in batch:
        own = host.model(**{key: value[:2] for key, value in batch.items()}).logits
        if distance(own, logits[:2]) > LEAK:
            raise UserError(
                f"its logits are not those of {type(host.model).__name__}: it has another head than is read here"
            )


def _looks(outputs: dict[str, Tensor], logits: Tensor, causal: bool) -> None:
    """Padding reaches no real token, and in a causal host a later token no earlier one."""
    for name, output in outputs.items():
        if output.dim() != 3:  # texts without their padding in one row: the logits tell
            continue
        if distance(output[2, :REAL], output[3, :REAL]) > LEAK:
            raise UserError(f"what stands at padding changes what {name} gives at real tokens")
        if causal and distance(output[0, :CHANGED], output[1, :CHANGED]) > LEAK:
            raise UserError(f"{name} is causal by its mask, and a later token changes what it gives at earlier ones")
    if distance(logits[2], logits[3]) > LEAK:
        raise UserError("what stands at padding changes its logits")


def _first(output: Output) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _real(output: Tensor, mask: Tensor | None) -> Tensor:
    """Of an output (B, T, D) the real tokens; others as they are."""
    return output[mask.bool()] if mask is not None and output.shape[:2] == mask.shape else output


def distance(own: Tensor, other: Tensor) -> float:
    """The largest difference, of the largest number; infinite where something is no number."""
    distance = float((own - other).abs().max() / own.abs().max().clamp_min(torch.finfo(own.dtype).tiny))
    return distance if distance == distance else float("inf")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; every module's own mode comes back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
