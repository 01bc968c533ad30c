"""Depth and operations of every softmax that has a circuit, counted on the simulator, beside what was published."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from cgf.approx import fit
from cgf.bench.job import rows_of
from cgf.errors import UserError
from cgf.he.dryrun import depth, dry_run
from cgf.he.engines.engine import BOOTSTRAPPABLE
from cgf.published import DEPTH, LEVELS_AFTER_BOOTSTRAP, PAPER, PAPER_K, TRAITS
from cgf.softmax.base import Softmax
from cgf.softmax.cgf import CGF
from cgf.softmax.load import DEFINITIONS
from cgf.softmax.published.base import Published
from cgf.softmax.published.normalize_square import NormalizeSquare
from cgf.softmax.taylor import TaylorCGF
from cgf.types import Json

LOW = -128.0  # the interval [LOW, 0] of the exponent, on which exp has a stand-in
TAYLOR_REACH = 2.0  # about x0: the paper states no domain for its Taylor polynomials


@dataclass(frozen=True)
class Form:
    """A softmax as a line of the table has it: with an exponential in place, in a style of circuit.

    label   of the line; source, stand_in: of this form, where they are not those of the definition
    """

    label: str
    softmax: Softmax
    style: str = "folded"
    source: str = ""
    stand_in: str = ""


@dataclass(frozen=True)
class Shape:
    """Rows and columns of the matrix whose circuit is counted."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        most = BOOTSTRAPPABLE.slots
        if not (1 <= self.rows <= most and 2 <= self.columns <= most):
            raise UserError(
                f"rows must lie in 1 to {most} and columns in 2 to {most}, and {self.rows} x {self.columns} was given"
            )


def counted(softmax: Softmax, shape: Shape, style: str = "folded") -> Json:
    """Levels as if no ring ended, operations, and the bootstraps where the 2^15-slot engine must refresh."""
    rows = rows_of(shape.rows, shape.columns)
    endless = depth(softmax, rows, shape.columns, style)
    try:
        boots = dry_run(softmax, rows, shape.columns, style, rings=(BOOTSTRAPPABLE,)).ops["boot"]
    except UserError:
        boots = None  # no place to refresh in its formula: the ring must hold all of it
    return {
        "levels": endless.levels,
        "ops": {**endless.ops, "boot": boots},
        "ciphertexts": endless.layout.ciphertexts,
        "circuit": endless.circuit.name,
    }


def forms(columns: int) -> Iterator[Form]:
    """Every definition with a circuit at its default setting, for rows of ``columns`` entries.

    CGF-softmax comes first, in our form and in the paper's two, each on [-128, 0]; then what divides by nothing, then
    the others, in the order of the table of definitions. Where the definition has exp itself, a chain stands in.
    """
    yield from forms_of_cgf()
    others = [cls for cls in DEFINITIONS if cls is not CGF and cls.encryptable]
    for cls in sorted(others, key=lambda cls: cls.division):
        yield form_of(cls(**({"n": columns} if "n" in {f.name for f in fields(cls)} else {})))


def forms_of_cgf() -> Iterator[Form]:
    """Ours with a chain of 6 squarings, and Algorithm 1 of the paper with its two polynomials."""
    ours, paper, limit = CGF(), CGF(), CGF()
    ours.exponential, paper.exponential = fit.chain(LOW, 0.0, 6), fit.chebyshev(LOW, 0.0, 15, 4)
    limit.exponential = fit.limit(LOW, 0.0, 7)
    yield Form("ours: chain of 6, folded", ours, source="this repository, for the definition of the CGF-softmax paper")
    yield Form("paper: Chebyshev 15, k = 4", paper, "paper", f"{PAPER}, Algorithm 1 with Chebyshev")
    yield Form("paper: limit, k = 7", limit, "paper", f"{PAPER}, Algorithm 1 with the limit")


def form_of(softmax: Softmax) -> Form:
    """The line of a definition; its polynomial is its own, or a chain of 6 in place of exp."""
    stand_in = ""
    if isinstance(softmax, TaylorCGF):  # the one polynomial that comes without a domain
        near = softmax.x0 - TAYLOR_REACH, softmax.x0 + TAYLOR_REACH
        softmax.exponential = fit.taylor(softmax.degree, softmax.x0, *near)
    elif softmax.uses_exponential and softmax.exponential is None:
        softmax.exponential = fit.chain(LOW, 0.0, 6)
        stand_in = "exp is a chain of 6 squarings of ours on [-128, 0]"
    return Form(softmax.title(), softmax, source=softmax.source, stand_in=stand_in or softmax.stand_in)


def methods(shape: Shape) -> list[Json]:
    """A record for each of ``forms``: what was counted, what the definition says of itself, what was published."""
    return [
        {
            "method": form.label,
            "name": form.softmax.name,
            "setting": form.softmax.params(),
            **counted(form.softmax, shape, form.style),
            "published_traits": TRAITS.get(form.softmax.name),
            "published_levels": DEPTH.get(form.softmax.name),
            "maximum": form.softmax.maximum,
            "division": form.softmax.division,
            "adaptive": form.softmax.adaptive,
            "source": form.source,
            "stand_in": form.stand_in,
            **stated(form.softmax),
        }
        for form in forms(shape.columns)
    ]


def stated(softmax: Softmax) -> Json:
    """Domain, guard and largest error that a softmax states; 'none' for each that it does not."""
    if isinstance(softmax, Published):
        return {"domain": softmax.domain, "guard": "none", "error_bound": softmax.error_bound()}
    fitted = softmax.exponential.fit if softmax.exponential is not None else None
    return {
        "domain": fitted.domain if fitted else "none",
        "guard": fitted.guard if fitted else "none",
        "error_bound": fitted.max_error if fitted else "none",
    }


def by_k(columns: int) -> list[Json]:
    """The paper's formulas for CGF and Cho et al., beside what the circuits count in one ciphertext.

    CGF on [-8 2^k, 0]; Cho et al. on [-4 2^k, 0], where the paper's rule k = ceil(log2 M - log2 ln n) gives k.
    """
    records, bits = [], math.ceil(math.log2(columns))
    shape = Shape(BOOTSTRAPPABLE.slots >> bits, columns)  # whole rows in one ciphertext
    for k in range(1, 7):
        cgf, ours = CGF(), CGF()
        chebyshev = cgf.exponential = fit.chebyshev(-8.0 * 2**k, 0.0, 15, k)
        chain = ours.exponential = fit.chain(-8.0 * 2**k, 0.0, min(k + 2, 8))
        rounds = NormalizeSquare(bound=4.0 * 2**k, n=columns, k=k)
        records.append(
            {
                "k": k,
                CGF.name: {
                    **counted(cgf, shape, "paper"),
                    "max_error": chebyshev.fit.max_error if chebyshev.fit else None,
                    "formula": formula(k + 6, k + 10, 2 * bits),
                },
                NormalizeSquare.name: {
                    **counted(rounds, shape),
                    "max_error": rounds.error_bound(),
                    "formula": formula(8 * k + 9, 12 * k + 58, 2 * k * bits),
                },
                "ours": {**counted(ours, shape), "max_error": chain.fit.max_error if chain.fit else None},
            }
        )
    return records


def formula(levels: int, cmult: int, rotate: int) -> dict[str, int]:
    """What the paper's table 'softmax_complexity' gives for one k."""
    return {"levels": levels, "cmult": cmult, "rotate": rotate, "boot": levels // LEVELS_AFTER_BOOTSTRAP}


def paper_k(shape: Shape) -> list[Json]:
    """The paper's depth column: the smaller of Chebyshev (k + 6) and limit (k + 2), as counted."""
    records = []
    for published in PAPER_K:
        first, second = CGF(), CGF()
        first.exponential = fit.chebyshev(-8.0 * 2**published.chebyshev, 0.0, 15, published.chebyshev)
        second.exponential = fit.limit(-(2.0**published.limit), 0.0, published.limit)
        counts = [counted(s, shape, "paper")["levels"] for s in (first, second)]
        ks = [published.chebyshev, published.limit]
        records.append({"model": published.where, "k": ks, "levels": counts, "least": min(counts)})
    return records
