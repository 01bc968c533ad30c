"""How much of a model stays encrypted: he.scope, what it puts at a layer's softmax, and how a result says it."""

from __future__ import annotations

from cgf.checks import one_of, whole
from cgf.errors import UserError
from cgf.he.encrypted import Encrypted
from cgf.he.encrypted_attention import EncryptedAttention
from cgf.he.workers import whole_workers
from cgf.types import Config, Json

MEMORY_MIB = 1500  # what configs/eval_he.yaml has where nobody sets he.memory_mib
SLOTS: dict[str, type[Encrypted]] = {"softmax": Encrypted, "attention": EncryptedAttention}
# what a result says of a run that encrypts, and of one that does not
SAYS = {
    "softmax": ("softmax under CKKS, all else in the clear", "softmax simulated, nothing encrypted"),
    "attention": (
        "attention under CKKS; projections, norms and activations in the clear; one round with the key holder a layer, "
        "who sees that layer's outputs",
        "attention simulated, nothing encrypted",
    ),
    "network": (
        "whole network under CKKS: nothing is decrypted between input and logits",
        "whole network simulated, nothing encrypted",
    ),
}


def checked_scope(he: Config) -> str:
    """``he.scope``. UserError for one that is not known, or that does not go with the other settings."""
    one_of("he.scope", he.scope, tuple(SAYS))
    whole("he.memory_mib", he.memory_mib, 1)
    if he.memory_mib != MEMORY_MIB and he.scope != "attention":
        raise UserError(
            f"he.memory_mib is about he.scope=attention, and {he.memory_mib} was given with he.scope={he.scope}: "
            "he.workers bounds its memory"
        )
    if not isinstance(he.alone, bool):
        raise UserError(f"he.alone must be true or false, and {he.alone!r} was given")
    if he.alone and he.scope != "network":
        raise UserError(f"he.alone=true is about he.scope=network, and was given with he.scope={he.scope}")
    whole_workers(he.processes, "he.processes")
    if he.processes > 1 and (he.scope != "network" or he.alone or he.check):
        raise UserError(
            f"he.processes={he.processes} shares out sets of he.scope=network without he.alone and he.check, and "
            f"he.scope={he.scope}, he.alone={he.alone}, he.check={he.check} was given"
        )
    if he.scope != "softmax" and he.rows_at_once is not None:
        bounds = "he.memory_mib" if he.scope == "attention" else "he.workers"
        raise UserError(
            f"he.rows_at_once is about he.scope=softmax, and {he.rows_at_once} was given with he.scope={he.scope}: "
            f"{bounds} bounds its memory"
        )
    return str(he.scope)


def scope_of(result: Json) -> str:
    """he.scope of a result, by what it says. UserError for one that says something else."""
    for name, texts in SAYS.items():
        if result.get("scope") in texts:
            return name
    raise UserError(f"a result says what of it was encrypted, and this one says {result.get('scope')!r}")
