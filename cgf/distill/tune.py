"""Which parameters are trained: all, the attention's, or low-rank adapters on its projections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from cgf.errors import UserError, reason
from cgf.models.host import Host
from cgf.models.install import attention_blocks
from cgf.models.replace import parts_of

if TYPE_CHECKING:  # seconds to load, for adapters alone
    from peft import LoraConfig

# parts of a name that say that a parameter is of the head; and those that say so at the top of a model alone
HEADS, TOP = ("score", "classifier", "pre_classifier", "head", "head_dist", "fc_norm", "pooler"), ("dense",)
MODES = ("full", "attention", "lora")


def tune(
    host: Host,
    mode: str = "full",
    *,
    rank: int = 16,
    scale: int = 32,
    dropout: float = 0.0,
    targets: Sequence[str] | None = None,
    keep: bool = False,
    head: bool = True,
) -> int:
    """Freezes what is not trained, adds adapters where asked; returns the number of trained parameters.

    lora: peft adapters of the given rank on the layers whose names end in ``targets`` (None: every linear layer of the
    attentions, which are their projections).
    head: whether the classification head (with what pools for it) is trained beside attention or adapters. Checkpoints
    hold the weights with the adapters merged; keep: the adapters too, apart, in ``host/adapters``. Raises UserError for
    an unknown mode, targets that match nothing, a head frozen that was never trained or in mode full, or if nothing
    would be trained.
    """
    _check_asked(host, mode, head)
    if mode == "lora":
        names = list(targets or _projections(host))
        config = _adapt(host, names, bool(targets), rank=rank, scale=scale, dropout=dropout)
        if keep:
            host.extras = partial(write_adapters, host.model, config)
    if mode != "full":
        _freeze(host, mode, head)
    for parameter in parts_of(host.model).parameters():  # replaced norms and activations are new, whatever is tuned
        parameter.requires_grad_(True)
    trained = sum(p.numel() for p in host.model.parameters() if p.requires_grad)
    if not trained:
        raise UserError(f"tune.mode={mode} leaves no parameter of {host.name} to train")
    return trained


def _check_asked(host: Host, mode: str, head: bool) -> None:
    """UserError for an unknown mode, and for a head that may not stay as it is."""
    if mode not in MODES:
        raise UserError(f"tune.mode must be one of {', '.join(MODES)}, and {mode!r} was given")
    if not isinstance(head, bool):
        raise UserError(f"tune.head must be true or false, and {head!r} was given")
    if not head and mode == "full":
        raise UserError("tune.mode=full trains every parameter, and tune.head=false was given: tune=attention_alone")
    if not head and not host.head_trained:
        raise UserError(
            f"tune.head=false needs a head that was trained, and that of {host.name} was not: start from a "
            "checkpoint (ckpt), or tune.head=true"
        )


def _freeze(host: Host, mode: str, head: bool) -> None:
    """Leaves the attention's parameters or the adapters to training, with the head where ``head`` says so."""
    blocks = attention_blocks(host.model) if mode == "attention" else []
    attention = {id(p) for block in blocks for p in block.parameters()}
    if mode == "attention" and not attention:
        raise UserError(f"tune.mode=attention needs attentions with parameters, and those of {host.name} have none")
    if head and not any(_in_head(name) for name, _ in host.model.named_parameters()):
        raise UserError(f"tune.head=true needs a head by one of the names {', '.join(HEADS)}, and {host.name} has none")
    for name, parameter in host.model.named_parameters():
        parameter.requires_grad_(id(parameter) in attention or "lora_" in name or (head and _in_head(name)))


def _projections(host: Host) -> list[str]:
    """Names of the linear layers of the attentions, by their endings where the host's cover them all, else in full.

    UserError where there is none.
    """
    from transformers.pytorch_utils import Conv1D

    within = {id(module) for block in attention_blocks(host.model) for module in block.modules()}
    linear = [n for n, m in host.model.named_modules() if id(m) in within and isinstance(m, nn.Linear | Conv1D)]
    if not linear:
        raise UserError(
            f"tune.mode=lora needs linear layers in the attentions, and those of {host.name} have none: name the "
            "layers to adapt by tune.targets=[...]"
        )
    covered = all(any(_ends(name, ending) for ending in host.lora_targets) for name in linear)
    return list(host.lora_targets) if covered else linear


def _adapt(host: Host, names: list[str], given: bool, *, rank: int, scale: int, dropout: float) -> LoraConfig:
    """Puts peft's adapters on the layers whose names end so; returns their configuration. UserError for no match.

    given: by a user, so that each must match; the host's own are alternatives.
    """
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=rank, lora_alpha=scale, lora_dropout=dropout, target_modules=names)
    try:
        inject_adapter_in_model(config, host.model)
    except ValueError as error:
        raise UserError(
            f"LoRA with rank {rank} on {', '.join(names)} does not fit {host.name}: {reason(error)} "
            "(tune.targets=[...] names other layers)"
        ) from None
    adapted = {name.partition(".lora_")[0] for name, _ in host.model.named_parameters() if ".lora_" in name}
    if given and (left := [ending for ending in names if not any(_ends(name, ending) for name in adapted)]):
        raise UserError(f"tune.targets names {left[0]}, which is the end of no layer of {host.name} with an adapter")
    return config


def _ends(name: str, ending: str) -> bool:
    return name == ending or name.endswith(f".{ending}")


def write_adapters(model: nn.Module, config: LoraConfig, folder: Path) -> None:
    """adapters/adapter_model.safetensors and adapter_config.json, as peft names and reads them.

    The adapters' own matrices alone: the trained head is in the checkpoint's model.safetensors.
    """
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    (folder / "adapters").mkdir(parents=True, exist_ok=True)
    state = {k: v for k, v in get_peft_model_state_dict(model).items() if ".lora_" in k}
    state = {f"base_model.model.{k}": v.detach().cpu().contiguous() for k, v in state.items()}
    save_file(state, folder / "adapters" / "adapter_model.safetensors")
    config.save_pretrained(str(folder / "adapters"))


def _in_head(name: str) -> bool:
    parts = name.split(".")
    return parts[0] in TOP or any(part in HEADS for part in parts)
