"""Seconds and memory of whole attentions before they run: operations of the dry run times a table of their times."""

from __future__ import annotations

from dataclasses import dataclass

from cgf.he.attention_needs import AttentionCost
from cgf.he.tile import memory_mib
from cgf.network.attention import Heads
from cgf.plan.op_times import OpTimes

PRODUCT = 192  # bytes a slot of an output of three polynomials
ARRAYS = (
    8  # of a layer in float64: queries, keys and values as they come, those of the set, its outputs, one in between
)


@dataclass(frozen=True)
class PredictedAttention:
    """Seconds of one thread and MiB of the process that works, for one set of ciphertexts.

    mib   beyond what the process holds before
    """

    client_s: float
    server_s: float
    mib: float

    @property
    def total_s(self) -> float:
        """Seconds of key holder and server together."""
        return self.client_s + self.server_s


def predict_attention(needs: AttentionCost, heads: Heads, times: OpTimes) -> PredictedAttention:
    """Of the set that the dry run was about. Preparing and conjugating need a table that has them (mode=cpu)."""
    top = needs.max_level
    server = sum(n * times.ms(kind, top, level) for (kind, level), n in needs.by_level.items())
    last = needs.input_level - needs.levels
    client = sum(n * times.ms("encrypt", top, level) for level, n in needs.encrypted.items())
    client += needs.decrypted * times.ms("decrypt", top, last)
    keys = times.key_bytes("relinearize", top) * (2 if needs.pairs else 1)
    keys += len(needs.rotations) * times.key_bytes("rotate", top)
    features = max(heads.query.shape[3], heads.value.shape[3])
    held = memory_mib(needs.tile, heads.shape[3], features, needs.pairs, needs.held)
    outputs = PRODUCT * needs.tile.slots * -(-features // (2 if needs.pairs else 1)) / 2**20
    arrays = ARRAYS * 8 * needs.tile.instances * max(heads.shape[2:]) * features / 2**20
    return PredictedAttention(client / 1e3, server / 1e3, held + outputs + arrays + keys / 2**20)
