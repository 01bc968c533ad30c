"""What known models would take as whole networks under CKKS, from their sizes and a table of operation times."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from cgf.he.engines.desilo_library import BOOTSTRAP_GIB
from cgf.he.engines.engine import BOOTSTRAPPABLE, ENDLESS, RINGS, ring_for
from cgf.plan.network_cost import BASE_MIB, BOOTSTRAP_S, top_of
from cgf.plan.op_times import OpTimes
from cgf.plan.refreshes import refreshed_level, refreshes
from cgf.plan.shape_cost import CircuitCounts, counted
from cgf.plan.sizes import BLOCK_LEVELS, HEAD_LEVELS, Sizes
from cgf.types import Json

MODELS = (
    Sizes(2, 64, 4, 256, 16, 4, 10, k=2, name="digits ViT of 2 blocks"),
    Sizes(4, 64, 4, 256, 16, 4, 10, k=2, name="digits ViT of 4 blocks"),
    Sizes(2, 96, 3, 384, 64, 48, 10, k=2, name="CIFAR-10 ViT of 2 blocks"),
    Sizes(2, 128, 2, 512, 16, 128, 150, k=2, name="BERT-tiny"),
    Sizes(2, 128, 2, 512, 32, 128, 150, k=3, name="BERT-tiny, 32 tokens"),
    Sizes(
        5, 64, 8, 172, 16, 64, 150,
        name="stories260k", k=3, kv_heads=4, gated=True, causal=True, rotary=True, mean=False,
    ),
    Sizes(6, 384, 12, 1536, 12, 384, 150, k=3, name="MiniLM"),
    Sizes(12, 192, 3, 768, 197, 768, 1000, k=3, name="DeiT-Tiny"),
    Sizes(
        16, 2048, 32, 8192, 128, 2048, 2,
        name="LLaMA-3.2-1B", k=3, kv_heads=8, gated=True, causal=True, rotary=True, mean=False,
    ),
)  # fmt: skip
GROUPS = {
    "multiply-adds": ("mac",),
    "key switches": ("rotate", "relinearize"),
    "products": ("cmult", "prepared", "square"),
}


def row(sizes: Sizes, times: OpTimes) -> Json:
    """A model's line: sizes, levels and whether a ring holds them, samples, core-seconds, GiB, and what would fit.

    Times are of one thread. Raises UserError where the table lacks an operation or a ring, and where a sample does not
    fit a ciphertext.
    """
    fits = sizes.levels <= RINGS[-1].max_level
    got = counted(sizes, ring_for(sizes.levels)) if fits else counted(sizes, ENDLESS, BOOTSTRAPPABLE.max_level)
    top = sizes.levels if fits else top_of(times)
    seconds = _seconds(got, times, top, fits)
    ends = min(top, BOOTSTRAPPABLE.max_level) if not fits else top
    client = got.encrypted * times.ms("encrypt", top, ends) + got.decrypted * times.ms("decrypt", top, 0)
    times_refreshed = 0 if fits else refreshes(sizes.levels)
    bootstraps = times_refreshed * -(-sizes.width // 2)
    circuit, samples = sum(seconds.values()) + client / 1e3, got.layout.samples
    keys = len(got.rotations) * times.key_bytes("rotate", top) + times.key_bytes("relinearize", top)
    keys_gib = keys / 2**30 + (0.0 if fits else BOOTSTRAP_GIB["medium"])
    return {
        "name": sizes.name,
        **asdict(sizes),
        "levels": got.levels,
        "levels_of_blocks": sizes.blocks * (BLOCK_LEVELS + sizes.k) + HEAD_LEVELS,
        "levels_of_masks_and_positions": sizes.blocks * sizes.more,
        "fits": fits,
        "ring_slots": got.layout.slots,
        "samples": samples,
        "refreshes": times_refreshed,
        "bootstraps": bootstraps,
        "bootstrap_s": bootstraps * BOOTSTRAP_S,
        "core_s_circuit": circuit,
        "core_s": circuit + bootstraps * BOOTSTRAP_S,
        "core_s_per_sample": (circuit + bootstraps * BOOTSTRAP_S) / samples,
        "share": {name: sum(seconds[kind] for kind in kinds) / circuit for name, kinds in GROUPS.items()},
        "ops": _ops(got),
        "ciphertext_gib": got.most_mib / 1024,
        "key_gib": keys_gib,
        "process_gib": BASE_MIB / 1024 + got.most_mib / 1024 + keys_gib,
        "would_fit": "" if fits else would_fit(sizes),
    }


def would_fit(sizes: Sizes) -> str:
    """In words, how many blocks of how many squarings the largest ring holds, at most as many as there are of both."""
    most = RINGS[-1].max_level - HEAD_LEVELS
    ways: list[tuple[int, int]] = []
    for k in range(sizes.k, 0, -1):
        blocks = min(most // (BLOCK_LEVELS + k + sizes.more), sizes.blocks)
        if blocks and (not ways or blocks > ways[-1][0]):
            ways.append((blocks, k))
    return " or ".join(f"{blocks} block{'s' * (blocks > 1)} of k = {k}" for blocks, k in ways) or "smaller blocks"


def _seconds(got: CircuitCounts, times: OpTimes, top: int, fits: bool) -> Counter[str]:
    """By kind; a network that does not fit is refreshed."""
    total: Counter[str] = Counter()
    for (kind, level), count in got.by_level.items():
        at = level if fits else refreshed_level(level)
        total[kind] += count * times.ms(kind, top, at) / 1e3  # type: ignore[assignment]  # typed for whole numbers
    return total


def _ops(got: CircuitCounts) -> dict[str, int]:
    total: Counter[str] = Counter()
    for (kind, _), count in got.by_level.items():
        total[kind] += count
    return dict(sorted(total.items()))
