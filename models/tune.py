"""Which parameters are trained: all, the attention's, or low-rank adapters on its projections."""

from __future__ import annotations

from cgf.errors import UserError
from models.host import Host

HEADS = ("score", "classifier", "head", "fc_norm", "pooler")
MODES = ("full", "attention", "lora")


def tune(host: Host, mode: str = "full", rank: int = 16, scale: int = 32, dropout: float = 0.0) -> int:
    """Freezes what is not trained, adds adapters where asked; returns the number of trained parameters.

    lora: peft adapters of the given rank on host.lora_targets. The classification head is always trained.
    Raises UserError for an unknown mode, or if nothing would be trained.
    """
    if mode not in MODES:
        raise UserError(f"tune.mode must be one of {', '.join(MODES)}, and {mode!r} was given")
    if mode == "lora":
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(r=rank, lora_alpha=scale, lora_dropout=dropout, target_modules=list(host.lora_targets))
        inject_adapter_in_model(config, host.model)
    if mode != "full":
        for name, parameter in host.model.named_parameters():
            attention = mode == "attention" and host.attention in f".{name}"
            parameter.requires_grad_(attention or "lora_" in name or _in_head(name))
    trained = sum(p.numel() for p in host.model.parameters() if p.requires_grad)
    if not trained:
        raise UserError(f"tune.mode={mode} leaves no parameter of {host.name} to train")
    return trained


def _in_head(name: str) -> bool:
    return any(part in HEADS for part in name.split("."))

