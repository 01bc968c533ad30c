"""Which of a host's weights no gradient reaches: its head leaves out a last norm, or a token of pretraining."""

from __future__ import annotations

import torch

from cgf.models.host import Host
from cgf.models.install import installed
from cgf.models.probe import probe_batch
from cgf.models.replace import parts_of, probing
from cgf.models.self_check import IndependentExact, evaluating


def without_gradient(host: Host) -> list[str]:
    """Names of the trained weights that the logits do not depend on, read off autograd's graph of one small batch.

    The batch is random, goes through exact softmaxes, and leaves the host as it was. Weights of replaced norms and
    activations count as reached.
    """
    device = next(host.model.parameters()).device
    batch = {name: tensor.to(device) for name, tensor in probe_batch(host).items()}
    with (
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
        evaluating(host.model),
        probing(parts_of(host.model)),
        installed(host.model, lambda _: IndependentExact()),
    ):
        reached, seen = set(), set()
        functions = [host.forward(host.model, batch).grad_fn]
        while functions:
            function = functions.pop()
            if function is None or function in seen:
                continue
            seen.add(function)
            reached.add(id(getattr(function, "variable", None)))  # autograd's leaves alone have one: their weight
            functions += [following for following, _ in function.next_functions]
    # in the place of these the host's own functions ran
    reached |= {id(weight) for part in parts_of(host.model).all for weight in part.parameters()}
    return [
        name for name, weight in host.model.named_parameters() if weight.requires_grad and id(weight) not in reached
    ]
