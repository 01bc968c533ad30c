"""Seconds and memory of a whole network before it runs, by stage; and what one that fits no ring would take."""

from __future__ import annotations

from dataclasses import dataclass

from cgf.he.engines.desilo_library import BOOTSTRAP_GIB
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS
from cgf.he.network_needs import NetworkCost, alone_needs, endless_needs, needs_of, together_mib
from cgf.network.program import Attend, Program
from cgf.plan.op_times import OpTimes
from cgf.plan.refreshes import refreshed_level, refreshes
from cgf.plan.sizes import BLOCK_LEVELS

# of a process with the libraries, torch among them, the engine and its keys being made: two runs of digits ViTs held
# 1,389 and 1,629 MiB before the first ciphertext, of which 238 and 437 were evaluation keys
BASE_MIB = 1150.0
# a bootstrap of two merged ciphertexts with a key of medium size, seconds (docs/engines.md)
BOOTSTRAP_S = 38.0


@dataclass(frozen=True)
class PredictedStage:
    """Seconds of one thread, levels and the memory of the ciphertexts held at most."""

    name: str
    seconds: float
    level: int
    left: int
    mib: float
    ops: dict[str, int]


@dataclass(frozen=True)
class PredictedNetwork:
    """One set of samples.

    client_s, server_s  seconds of one thread;  key_mib: of the evaluation keys
    mib                 of all its processes, at most; of one alone where no ring holds the network
    bootstraps          0 where a ring holds the network;  fits: in words what would make it fit, where none does
    short               in words, where the table of times ends at fewer levels; empty where it does not
    """

    tokens: int
    samples: int
    levels: int
    ring_slots: int
    client_s: float
    server_s: float
    key_mib: float
    mib: float
    bootstraps: int
    stages: tuple[PredictedStage, ...]
    fits: str = ""
    short: str = ""

    @property
    def total_s(self) -> float:
        """Of client and server together."""
        return self.client_s + self.server_s

    def told(self) -> str:
        """One line for the terminal."""
        line = (
            f"{self.tokens} tokens: {self.samples} samples a set in {self.ring_slots} slots, {self.levels} levels, "
            f"{self.client_s:.0f} + {self.server_s:.0f} s of one core ({self.total_s / self.samples:.2f} s a sample), "
            f"{self.mib / 1024:.1f} GiB, keys {self.key_mib / 1024:.1f} GiB"
        )
        if self.short:
            line += f". {self.short}"
        if not self.bootstraps:
            return line
        return f"{line}; no ring holds it: {self.bootstraps} bootstraps among that. {self.fits}"


def predict_network(program: Program, times: OpTimes, alone: bool = False, processes: int = 1) -> PredictedNetwork:
    """What a set of samples takes that so many processes share out, or one sample ``alone``.

    UserError for a table of times that lacks an operation, or the ring.
    """
    if program.depth() > RINGS[-1].max_level and not alone:
        return _refreshed(program, times)
    needs = alone_needs(program) if alone else needs_of(program)
    top = needs.max_level
    stages = tuple(
        PredictedStage(s.name, _seconds(s.by_level, times, top), s.level, s.left, s.most_mib, s.ops)
        for s in needs.stages
    )
    client = needs.encrypted * times.ms("encrypt", top, top) + needs.decrypted * times.ms("decrypt", top, 0)
    keys = _key_mib(needs, times, top)
    return PredictedNetwork(
        program.tokens,
        needs.samples,
        needs.levels,
        needs.ring.slots,
        client / 1e3,
        sum(stage.seconds for stage in stages),
        keys,
        BASE_MIB + keys + (needs.most_mib if processes == 1 else together_mib(needs, processes)),
        0,
        stages,
        short=times.end_told(top),
    )


def _seconds(by_level: dict[tuple[str, int], int], times: OpTimes, top: int) -> float:
    return sum(count * times.ms(kind, top, level) for (kind, level), count in by_level.items()) / 1e3


def _key_mib(needs: NetworkCost, times: OpTimes, top: int) -> float:
    rotations = len(needs.rotations) * times.key_bytes("rotate", top)
    return (times.key_bytes("relinearize", top) + rotations) / 2**20


def _refreshed(program: Program, times: OpTimes) -> PredictedNetwork:
    """An estimate, not a circuit: the levels of a ring that bootstraps, used again and again.

    1. Operations are those of the circuit without an end of levels; one at level l runs at a level of 1 to 17.
    2. Between two refreshes at most 16 levels are used: one of the 17 is what a refreshed ciphertext is scaled by.
    3. A refresh is of the state beside an attention, the fewest ciphertexts there are; two share a bootstrap.
    """
    needs, top = endless_needs(program), BOOTSTRAPPABLE.max_level
    stages = tuple(
        PredictedStage(
            s.name,
            _seconds(
                {(kind, refreshed_level(level)): n for (kind, level), n in s.by_level.items()}, times, top_of(times)
            ),
            s.level,
            s.left,
            s.most_mib * top / max(needs.levels, 1),
            s.ops,
        )
        for s in needs.stages
    )
    # what an attention maps is the state; its queries may have fewer features or more
    width = max(step.layer.query.weight.shape[1] for step in program.steps if isinstance(step, Attend))
    bootstraps = refreshes(needs.levels) * -(-width // 2)
    held = max(stage.mib for stage in stages)
    return PredictedNetwork(
        program.tokens,
        needs.samples,
        needs.levels,
        needs.ring.slots,
        (needs.encrypted * times.ms("encrypt", top_of(times), top)) / 1e3,
        sum(stage.seconds for stage in stages) + bootstraps * BOOTSTRAP_S,
        _key_mib(needs, times, top_of(times)),
        BOOTSTRAP_GIB["medium"] * 1024 + held,
        bootstraps,
        stages,
        what_fits(program),
    )


def top_of(times: OpTimes) -> int:
    """The least measured engine of the ring that bootstraps. UserError where the table has none of it."""
    return times.neighbours(RINGS[-2].max_level + 1)[0]


def what_fits(program: Program) -> str:
    """In words what would fit the largest ring: fewer squarings a block, or fewer blocks."""
    attentions = [step for step in program.steps if isinstance(step, Attend)]
    blocks, depth, most = len(attentions), program.depth(), RINGS[-1].max_level
    k = max(step.layer.of_head(head).levels for step in attentions for head in range(step.layer.heads))
    per_block = BLOCK_LEVELS + k + max(step.layer.more_levels for step in attentions)
    ends = depth - blocks * per_block
    fewer, squarings = (most - ends) // per_block, (most - ends) // blocks - (per_block - k)
    ways = [f"{fewer} blocks of {k} squarings"] if fewer >= 1 else []
    ways += [f"{blocks} blocks of {squarings}"] if squarings >= 1 else []
    shorter = " or ".join(ways) or "fewer and smaller blocks"
    return f"The largest ring holds {most} levels: {shorter} would fit it"
