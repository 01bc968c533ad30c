"""The table of operation times in the shape of HEIR's level-dependent cost model."""

from __future__ import annotations

from cgf.checks import positive, whole
from cgf.plan.op_times import OpTimes

Latencies = dict[str, list[float]]


def latency_table(times: OpTimes, max_level: int, bootstrap_ms: float) -> dict[str, Latencies]:
    """{'latencyTable': {operation: milliseconds}}, entry i of a list being at level i + 1, of an engine of max_level.

    A product of this project rescales at once, and HEIR counts that apart: ``rescale`` is what a product with a number
    takes above one with an integer, which does not rescale, and the products are without it. A product of ciphertexts
    has its relinearization. Negation is a product with an integer. bootstrap_ms: of one bootstrap, which the table does
    not hold; HEIR asks for it, so it has to be given.

    Raises UserError for a max_level that is no engine's, or a bootstrap_ms that is not positive.
    Source: google/heir, pull request 3187, 'Orbit: Level-dependent Cost Model'.
    """
    whole("max_level", max_level, 1)
    positive("bootstrap_ms", bootstrap_ms)
    levels = range(1, max_level + 1)

    def at(kind: str) -> list[float]:
        return [times.ms(kind, max_level, level) for level in levels]

    rescale = [max(0.0, product - integer) for product, integer in zip(at("pmult_float"), at("imult"), strict=True)]
    relinearize = [times.ms("relinearize", max_level, level - 1) for level in levels]
    products = [a + b for a, b in zip(at("cmult"), relinearize, strict=True)]

    def without(row: list[float]) -> list[float]:
        return [max(0.0, ms - apart) for ms, apart in zip(row, rescale, strict=True)]

    table = {
        "addCtCt": at("add"),
        "addCtPt": at("add_vector"),
        "mulCtCt": without(products),
        "mulCtPt": without(at("pmult_vector")),
        "rotate": at("rotate"),
        "negate": at("imult"),
        "rescale": rescale,
        "bootstrap": [bootstrap_ms] * max_level,
    }
    return {"latencyTable": table}
