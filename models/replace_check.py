"""Replaces a host's norms and activations, and checks by one small batch that this replaces all there is of them.

The batch goes through the untouched model, which shows where norms and activations run and how wide they are; and
through the model with every replacement computing the host's own function by other operations than torch's own. Its
logits must be those of before, and no norm and no activation may run elsewhere.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cgf.activation.base import ActivationVariant
from cgf.activation.polynomial import Products
from cgf.errors import UserError
from cgf.models import places
from cgf.models.host import Host
from cgf.models.install import installed
from cgf.models.operation_watch import OperationWatch
from cgf.models.probe import probe_batch
from cgf.models.replace import Parts, parts_of, probing, replace, restore, starting
from cgf.models.self_check import LEAK, IndependentExact, distance, evaluating
from cgf.norm.base import NormVariant
from cgf.replacement import Variant

NORMS = (
    "aten::native_layer_norm",
    "rms_norm",
    "aten::native_group_norm",
    "aten::rsqrt",
    "aten::sqrt",
    "aten::std",
    "aten::var",
    "aten::linalg_vector_norm",
)
ACTIVATIONS = (
    "aten::gelu",
    "aten::silu",
    "aten::relu",
    "aten::tanh",
    "aten::sigmoid",
    "aten::elu",
    "aten::hardtanh",
    "aten::hardswish",
    "aten::hardsigmoid",
    "aten::softplus",
    "aten::mish",
    "aten::leaky_relu",
    "aten::erf",
    "aten::log_sigmoid_forward",
    "aten::celu",
    "aten::selu",
    "aten::prelu",
    "aten::_prelu_kernel",
    "aten::relu6",
)


class Probe(nn.Module):
    """Computes the host's own function, and notes how wide its values are; or gives ones, where it is ``cut``."""

    def __init__(self, own: places.Original) -> None:
        super().__init__()
        self.widths: set[int] = set()
        self.cut = False
        object.__setattr__(self, "own", own)

    def forward(self, u: Tensor) -> Tensor:
        """u (..., features) to the same shape."""
        self.widths.add(u.shape[-1])
        return torch.ones_like(u) if self.cut else self.own(u)  # type: ignore[operator]


def replaced(host: Host, norm: NormVariant, activation: ActivationVariant) -> Parts:
    """Replaces the norms and activations of a host, but for those in ``keep`` and those that never run.

    The variant 'exact' leaves the host's own. UserError, with the name of the model, for what cannot be replaced; the
    model is then as it was.
    """
    restore(host.model)
    try:
        # exact: whatever else stands there may compute anything
        stands = installed(host.model, lambda _: IndependentExact())
        with torch.random.fork_rng(devices=[]), evaluating(host.model), torch.no_grad(), stands:
            return _replaced(host, norm, activation)
    except UserError as error:
        restore(host.model)
        raise UserError(f"norms and activations of model={host.name} cannot be replaced: {error}") from None


def _replaced(host: Host, norm: NormVariant, activation: ActivationVariant) -> Parts:
    model, batch = host.model, {k: v.to(next(host.model.parameters()).device) for k, v in probe_batch(host).items()}
    norms = _chosen(norm, places.norms(model) if _active(norm) else [], "norm")
    activations = _chosen(activation, places.activations(model) if _active(activation) else [], "activation")
    before = host.forward(model, batch)
    widths = _widths(host, batch, [*norms, *activations], gates=activations if isinstance(activation, Products) else [])
    parts = replace(
        model,
        norm,
        activation,
        {name: widths[name] for name in norms if name in widths},
        {name: widths[name] for name in activations if name in widths},
    )
    for variant, operations, what in ((norm, NORMS, "norm"), (activation, ACTIVATIONS, "activation")):
        if not _active(variant):
            continue
        watch = OperationWatch(model, operations, but=(*parts.norms, *parts.activations, *_kept(model, variant)))
        with probing(parts), watch.watching():
            after = host.forward(model, batch)
        if watch.places:
            raise UserError(
                f"an activation or a norm is not replaced and would stay exact: a {what} in {watch.places[0]}"
            )
        if distance(before, after) > LEAK:
            raise UserError(
                f"with every {what} replaced by one that computes the same, its logits are others than before (by "
                f"{distance(before, after):.1e} of the largest)"
            )
        if not (parts.norms if what == "norm" else parts.activations):
            raise UserError(f"it has no {what} that could be replaced: {what}=exact")
    return parts


def _active(variant: Variant) -> bool:
    return variant.name != "exact"


def _kept(model: nn.Module, variant: Variant) -> list[str]:
    return [name for name, _ in model.named_modules() if _is_kept(name, variant)]


def _is_kept(name: str, variant: Variant) -> bool:
    return any(name == end or name.endswith(f".{end}") for end in variant.keep)


def _chosen(variant: Variant, names: list[str], what: str) -> list[str]:
    for end in variant.keep:
        if not any(name == end or name.endswith(f".{end}") for name in names):
            raise UserError(f"{what}.keep names '{end}', and there are {', '.join(names) or 'none'}")
    return [name for name in names if not _is_kept(name, variant)]


def _widths(host: Host, batch: dict[str, Tensor], names: list[str], gates: list[str]) -> dict[str, int]:
    """The features of every place that runs. UserError for one of several widths, and for a gate that is none."""
    probes = {name: Probe(places.at(host.model, name)) for name in names}
    try:
        for name, probe in probes.items():
            places.put(host.model, name, probe)
        host.forward(host.model, batch)
        for name in gates:
            if probes[name].widths and not _is_gate(host, batch, name, probes[name]):
                raise UserError(f"activation=product needs gated units, and the activation {name} is no gate")
    finally:
        for name, probe in probes.items():
            places.put(host.model, name, probe.own)  # type: ignore[arg-type]
    for name, probe in probes.items():
        if len(probe.widths) > 1:
            raise UserError(f"{name} runs on values of several widths ({sorted(probe.widths)}): one is needed")
    return {name: next(iter(probe.widths)) for name, probe in probes.items() if probe.widths}


def _is_gate(host: Host, batch: dict[str, Tensor], name: str, probe: Probe) -> bool:
    """Whether the unit around an activation still depends on its input where the activation gives ones."""
    outputs: list[Tensor] = []
    unit = host.model.get_submodule(name.rpartition(".")[0])
    handle = unit.register_forward_hook(lambda _, __, output: outputs.append(output))
    probe.cut = True
    try:
        host.forward(host.model, batch)
    finally:
        probe.cut = False
        handle.remove()
    vectors = outputs[0].reshape(-1, outputs[0].shape[-1])
    return bool((vectors - vectors[0]).abs().max() > 1e-6 * vectors.abs().max())


def start_from(host: Host, batch: dict[str, Tensor]) -> None:
    """First constants of all replacements, from one batch of training samples without labels, in one pass."""
    parts = parts_of(host.model)
    if parts.all:
        with evaluating(host.model), starting(parts):
            host.logits(batch)
