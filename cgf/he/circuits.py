"""CGF-softmax on packed rows, at the fewest levels, and Algorithm 1 as the paper writes it.

A circuit may scale what is encrypted and what was decrypted by public constants; everything between is
arithmetic on ciphertexts. A circuit belongs to an exponent (``BUILDERS``); a softmax of any other, or of none, runs
its ``formula`` as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential, plus_public
from cgf.approx.head_chain import HeadChain
from cgf.approx.unit_size import of_unit_size
from cgf.errors import UserError
from cgf.he.folding import (
    MOST_FOLDED,
    far_apart,
    fold_integers,
    rescaled,
    rescaled_by_row,
    square_part,
    without_last_constant,
)
from cgf.he.packed import Packed
from cgf.he.pairwise import pairwise
from cgf.he.score_rows import Rows
from cgf.softmax.base import ExponentialSoftmax, Softmax
from cgf.softmax.bpmax import BPMax, power
from cgf.softmax.cgf import CGF
from cgf.softmax.inheritance import age, as_defined
from cgf.softmax.loop import LoopCGF
from cgf.softmax.published.gaussian import GaussianKernel
from cgf.softmax.unit_sums import UnitSums
from cgf.softmax.value import Value
from cgf.types import Ciphertext

Exponent = Callable[..., Value]  # of a softmax and its rows: a method as a function
MOST_GROWN = 256.0  # by which weights of the shortest row may be larger under encryption than those of the longest
STYLES = ("folded", "abreast", "paper")
ROOTED = (BPMax.formula, BPMax.public_scale, BPMax.roots)  # what the circuit of that name puts together by itself


@dataclass(frozen=True)
class Circuit:
    """run takes scores * input_scale, and its result is made weights by ``opened``; the numbers are public.

    Each is one number, or (R, 1): of rows of different counts the scales too.
    """

    name: str
    run: Callable[[Packed], Packed]
    input_scale: float | np.ndarray = 1.0
    output_scale: float | np.ndarray = 1.0
    output_offset: float | np.ndarray = 0.0

    @property
    def style(self) -> str:
        """The value of he.circuit that asks for it: ``paper`` for algorithm-1; a masked circuit is never asked for."""
        return "paper" if self.name == "algorithm-1" else self.name

    def opened(self, result: np.ndarray) -> np.ndarray:
        """Weights (R, N) of what was decrypted (R, N)."""
        return (result + self.output_offset) * self.output_scale


def circuit_for(softmax: Softmax, rows: Rows, padded: bool, style: str = "folded") -> Circuit:
    """The circuit of a softmax on rows; padded: the layout has padding columns; style: one of STYLES.

    Raises UserError for a softmax that cannot run on ciphertexts, or that still has the true exponential.
    """
    if style not in STYLES:
        raise UserError(f"he.circuit must be one of {', '.join(STYLES)}, and {style!r} was given")
    if not softmax.encryptable:
        raise UserError(f"softmax '{softmax.name}' cannot run under CKKS: {softmax.why_not_encryptable}")
    if not isinstance(softmax, ExponentialSoftmax):
        same = age(type(softmax), "without_last") <= age(type(softmax), "formula")  # a newer formula stands alone
        if rows.uniform is None and softmax.last_power and same:
            return by_decryption(softmax, rows)
        if style != "paper" and isinstance(softmax, BPMax) and as_defined(softmax, *ROOTED):
            return rooted(softmax, rows)
        return Circuit("formula", softmax.formula, input_scale=softmax.public_scale(rows.uniform))
    if softmax.exponential is None:
        raise UserError(
            f"softmax '{softmax.name}' needs a polynomial for its exponential under CKKS: "
            "approx=plan, chebyshev, limit or chain"
        )
    exponent = exponent_of(softmax)
    build = as_it_stands if exponent is None else BUILDERS.get(exponent, as_it_stands)
    circuit = build(softmax, rows, padded, style)
    # the softmax's own formula puts its rows right itself
    return with_unit_sums(circuit, rows) if puts_rows_right(softmax) and circuit.name != "formula" else circuit


def takes_means(softmax: Softmax, style: str) -> float:
    """How many times the entries of the shortest row the longest may have where rows hold their mean in the place of
    absent entries, which takes no level (``folded``, ``by_sample``); 1: rows of one count alone, 0: none."""
    if style != "folded" or not isinstance(softmax, CGF) or softmax.order != 2 or softmax.exponential is None:
        return 0.0
    if puts_rows_right(softmax):  # what stands in for absent entries would be in the sum
        return 0.0
    exponent = exponent_of(softmax)
    if exponent is None or BUILDERS.get(exponent) is not second_order:
        return 0.0
    e = softmax.exponential
    if not isinstance(e, SquareChain | HeadChain):
        return 1.0
    return float(MOST_GROWN ** (2.0**-e.k)) if e.k <= MOST_FOLDED else 0.0  # else see ``far_apart``


def exponent_of(softmax: ExponentialSoftmax) -> Exponent | None:
    """The exponent that the weights are the exponential of, as a function; None where they are more than that.

    What CGF and LoopCGF do beyond applying the exponential is for training alone: an evaluation never cuts. Rows that
    are put right after it (``puts_rows_right``) are a circuit's own last step.
    """
    applied = (ExponentialSoftmax.apply_exponential, CGF.apply_exponential, LoopCGF.apply_exponential)
    made = (ExponentialSoftmax.from_exponentials, UnitSums.from_exponentials)
    alone = (
        as_defined(softmax, ExponentialSoftmax.formula)
        and any(as_defined(softmax, one) for one in applied)
        and any(as_defined(softmax, one) for one in made)
    )
    return getattr(softmax.exponent, "__func__", None) if alone else None


def puts_rows_right(softmax: Softmax) -> bool:
    """Whether its rows are made to sum to one as ``UnitSums`` does."""
    return as_defined(softmax, UnitSums.from_exponentials)


def stand_in(softmax: ExponentialSoftmax) -> Exponential:
    """The polynomial in place of exp, without which there is no circuit (``circuit_for``)."""
    assert softmax.exponential is not None
    return softmax.exponential


def as_it_stands(softmax: ExponentialSoftmax, rows: Rows, padded: bool, style: str) -> Circuit:
    """The softmax's own formula."""
    return Circuit("formula", softmax.formula)


def plain(softmax: ExponentialSoftmax, rows: Rows, padded: bool, style: str) -> Circuit:
    """The exponent is the score itself: its affine map rides on the encoding. Levels: core."""
    e = stand_in(softmax)
    return Circuit("plain", lambda x: e.core(plus_public(x, e.b)), input_scale=e.a)


def by_decryption(softmax: Softmax, rows: Rows) -> Circuit:
    """A formula whose last factor is a power of the row's count n, on rows of different n: the factor is public, and
    waits for decryption. Levels: one less than the formula's."""
    factor = rows.counts[:, None] ** softmax.last_power
    return Circuit("formula", softmax.without_last, softmax.public_scale(None), factor)


def rooted(softmax: BPMax, rows: Rows) -> Circuit:
    """BPMax on scores t x with t the p-th root of 1 / R, row by row: (t x + t c)^p. Levels: ceil(log2 p).

    Nothing is left to divide, and what is raised is about the p-th root of a weight. The formula as it stands raises
    scores of one scale for all heads and multiplies by r / R, and the noise with it: a thousandfold in a head whose R
    is a thousandth of the others'. An entry that does not count stays zero: t c raised could wrap the whole ciphertext.
    """
    roots = softmax.roots(rows.shape[2])
    shift = softmax.c * roots

    def run(x: Packed) -> Packed:
        if not x.has_invalid:
            return power(x.plus_public(shift), softmax.p)
        by_row = x.by_row(shift)
        return power(x.add_vector([mask * by_row for mask in x.mask()]), softmax.p)

    return Circuit("rooted", run, input_scale=rows.part(roots, 1))


def second_order(softmax: ExponentialSoftmax, rows: Rows, padded: bool, style: str) -> Circuit:
    """CGF-softmax of two cumulants; of more, as it stands."""
    assert isinstance(softmax, CGF)  # whose exponent it is
    if softmax.order != 2:
        return as_it_stands(softmax, rows, padded, style)
    e = stand_in(softmax)
    if rows.centred is not None and rows.uniform is None:
        return by_sample(e, rows)
    if rows.valid is not None or padded or rows.uniform is None:
        return masked(e, rows)
    if style == "paper":
        return algorithm_1(e, rows.uniform)
    if style == "folded" and far_apart(e, rows.uniform):
        return algorithm_1(e, rows.uniform)
    return folded(e, rows) if style == "folded" else abreast(e, rows)


# an exponent -> what makes its circuit; any other runs as its formula stands
Builder = Callable[[ExponentialSoftmax, Rows, bool, str], Circuit]
BUILDERS: dict[Exponent, Builder] = {CGF.exponent: second_order, GaussianKernel.exponent: plain}


def with_unit_sums(circuit: Circuit, rows: Rows) -> Circuit:
    """A circuit of p = (r + o) c, and then p + (1 - s) / n with s the row sum of p: (n r - rowsum(r) + 1 / c) c / n.

    o is the same along a row, so that it leaves n r - rowsum(r). Levels: none on full rows of one count; one where
    entries do not count, which a mask keeps out of the sum, or where counts differ, since n is no integer then.
    """
    n = rows.uniform

    def run(x: Packed) -> Packed:
        r = circuit.run(x)
        return (r.times_count(1.0) if n is None else r * n) - r.row_sum()

    c = circuit.output_scale
    return replace(circuit, run=run, output_scale=c / (rows.counts[:, None] if n is None else n), output_offset=1.0 / c)


def algorithm_1(e: Exponential, n: int) -> Circuit:
    """Algorithm 1 of the CGF-softmax paper on full rows: levels 1 (variance) + 1 (scaling) + core.

    Scores enter as x / n, so that x - mean = n (x / n) - rowsum(x / n) takes an integer product, no level.
    """

    def run(x: Packed) -> Packed:
        centred = x * n - x.row_sum()
        variance_term = centred.square().row_sum().relinearized() * (e.a / (2 * n))
        weights: Packed = e.core(plus_public(centred * e.a - variance_term, e.b - e.a * math.log(n)))
        return weights

    return Circuit("algorithm-1", run, input_scale=1.0 / n)


def folded(e: Exponential, rows: Rows) -> Circuit:
    """Full rows of one count n: the statistics and the affine map in one level, the square.

    With integers M1, M2: C = n X - rowsum(X), S = rowsum(C^2), and M1 C - M2 S + const = p (a y + b) for
    X = x a' / (M1 n), a' = M1^2 / (2 n M2), p = a' / a. The public factor p is near 1 and moves through
    the core into its constants (``rescaled``). C is made twice, which is cheaper than to keep it: M1 C - M2 S + const
    = M1 n X - shift. Levels: 1 + core. Error: that of e, nothing is added.

    Rows with N > n columns hold their mean in the others (``Rows.centred``). The mean of all N is then that of the n,
    and C is zero there, so that S is of the n: N stands for n in C and X, and n stays in a' and in the logarithm.
    """
    n = int(rows.counts[0])
    columns = rows.centred or n
    # 1. M1, M2 and the public factor p that they leave on a y + b
    m1, m2, p = fold_integers(e, n)
    # 2. p moves through the core, and the core's last constant to the far side of the decryption
    e, size = of_unit_size(e)
    core, output_scale = rescaled(e, p)
    core, offset = without_last_constant(core, rows)
    # 3. p (b - a ln n): what is public of p (a y + b)
    constant = p * (e.b - e.a * math.log(n))

    run = _folded_run(core.core, columns, (m1, m2), constant)
    return Circuit("folded", run, p * e.a / (m1 * columns), output_scale * size, offset)


def _folded_run(
    core: Callable[[Packed], Packed], columns: int, integers: tuple[int, int], constant: float | np.ndarray
) -> Callable[[Packed], Packed]:
    """What ``folded`` and ``by_sample`` run on X, whose rows have so many columns, the integers being M1 and M2."""
    m1, m2 = integers

    def run(x: Packed) -> Packed:
        # 4. rowsum(X), by additions and rotations alone
        total = x.row_sum()
        # 5. S = rowsum(C^2) with C = N X - rowsum(X): N is an integer, so the square is the one level
        squares = x.sum_each(lambda column: (column * columns - total).square()).relinearized()
        # 6. M1 rowsum(X) + M2 S - constant, one ciphertext for the row
        shift = plus_public(squares * m2 + total * m1, -constant)
        # 7. M1 N X less that is p (a y + b), which enters the core, one ciphertext after the other
        return x.each(lambda column: core(column * (columns * m1) - shift))

    return run


def by_sample(e: Exponential, rows: Rows) -> Circuit:
    """``folded`` for samples of different counts n, whose rows hold their mean in every other of N columns.

    What a row's n decides is public and takes no product. M1 and M2 are those of the longest row. X = x a' / (M1 N)
    takes a' = M1^2 / (2 n M2) by row, so that p = a' / a is larger for a shorter row. p moves through a chain into its
    constants by row, and its power 2^k waits for decryption. Levels: 1 + core.
    """
    assert rows.centred is not None  # what makes them such rows
    n = np.ones((rows.shape[0], rows.shape[1], 1, 1))
    n.reshape(-1)[rows.index // rows.shape[2]] = rows.counts  # of a sample and head all alike
    longest, columns = int(rows.counts.max()), rows.centred
    # 1. as folded, for the longest row
    m1, m2, p0 = fold_integers(e, longest)
    p = p0 * longest / n
    # 2. p by row through the core, and the core's last constant behind decryption
    core, growth = rescaled_by_row(e, p)
    offset = rows.part(core.constants[-1], 1)
    core = replace(core, constants=(*core.constants[:-1], np.zeros(1)))
    # 3. p (b - a ln n), by row
    constant = p * (e.b - e.a * np.log(n))

    # 4. to 7. as folded, with N columns
    scales = rows.part(p * e.a / (m1 * columns), 1), rows.part(growth, 1)
    return Circuit("folded", _folded_run(core.core, columns, (m1, m2), constant), *scales, offset)


def abreast(e: Exponential, rows: Rows, centre: float = 0.0) -> Circuit:
    """Full rows of one count n: both row sums come from the scores themselves, so that neither waits for the other.

    With X = x sqrt(a / 2) / n, where n = q^2 m and m is square-free:
    a (x - K) = n sqrt(2a) X - sqrt(2a) rowsum(X) - m rowsum((q X)^2) + rowsum(X)^2.
    Levels: 1 + core, as ``folded``, and one square more. m multiplies the noise of the squares, and the
    variance is E[x^2] - mean^2, which loses about log2(mean^2 / variance) bits: for n of small m (256: 1) and
    two lanes (cgf.he.engines.lanes), where the longest path counts and not the work.
    """
    n = int(rows.counts[0])
    q, m = square_part(n)
    root, constant, scale = math.sqrt(2 * e.a), e.b - e.a * math.log(n), math.sqrt(e.a / 2) / n
    core, offset = without_last_constant(e, rows)

    def run(x: Packed) -> Packed:
        x = x - centre * scale
        # m q^2 = n, of which only m multiplies the noise of the squares
        s1, s2 = x.row_sum(), x.sum_each(lambda column: (column * q).square()).relinearized() * m
        shift = plus_public(s2 - s1.square().relinearized() + s1 * root, -constant)
        return x.each(lambda column: core.core(column * (n * root) - shift))

    return Circuit("abreast", run, scale, output_offset=offset)


def masked(e: Exponential, rows: Rows) -> Circuit:
    """Rows with entries that do not count (causal, padding, padding columns): 2 levels + core.

    With X = x / n zero where it does not count, n the row's count, s1 = rowsum(X) and s2 = rowsum(X^2):
    a y + b = a n X - a s1 - (a n / 2) s2 + (a / 2) s1^2 - a ln n + b. The mask rides in the vectors
    that carry these factors, so entries that do not count enter the core at exactly b (y = 0). One scale for all
    rows, that of the longest, would multiply the noise of a short row's s1^2 by the square of how much shorter it
    is. The variance is E[x^2] - mean^2, because the centred one needs a mask, and with it a level, in between; it
    loses about log2(mean^2 / variance) bits. Ciphertexts without an entry that does not count share one shift, three
    vector products in all; the others take three each. Where counts differ, a n X is one more for each ciphertext.
    """
    n = rows.counts
    e, size = of_unit_size(e)
    core, offset = without_last_constant(e, rows)

    def run(x: Packed) -> Packed:
        layout, masks = x.layout, x.mask()
        # 1. both row sums and the square of the first: one level
        s1 = x.row_sum().relinearized()
        s2 = x.sum_each(Packed.square).relinearized()
        s1_squared = s1.square().relinearized()
        # 2. the three terms that a row subtracts, each with its public factor; a goes in with the sign
        if rows.uniform is not None:  # n s2 - s1^2 takes an integer product: one vector for both
            terms = [(s1, np.ones_like(n)), (s2 * rows.uniform - s1_squared, np.full_like(n, 0.5))]
        else:
            terms = [(s1, np.ones_like(n)), (s2, n / 2), (s1_squared, np.full_like(n, -0.5))]
        vectors = [(term.cts[0], layout.spread(-e.a * factor)) for term, factor in terms]
        offset = layout.spread(-e.a * np.log(n))
        start = x.by_row(e.b) if isinstance(e.b, np.ndarray) else e.b
        everywhere = layout.spread(np.ones(layout.rows))
        own = layout.spread(e.a * n) if rows.uniform is None else e.a * rows.uniform

        def shift(mask: np.ndarray) -> Ciphertext:
            """3. Their sum where an entry counts, b where none does: a vector carries factor and mask, one level."""
            parts = [x.engine.mul(term, vector * mask) for term, vector in vectors]
            return x.engine.add(pairwise(parts, x.engine.add), offset * mask + start)

        # 4. ciphertexts in which every entry counts have one mask, and share one sum
        whole = [np.array_equal(mask, everywhere) for mask in masks]
        shared = shift(everywhere) if any(whole) else None
        # 5. a n X plus the sum is a y + b, each through the core to its end, as Packed.each does
        weights = []
        for ct, mask, same in zip(x.cts, masks, whole, strict=True):
            u = x.engine.add(x.engine.mul(ct, own), shared if same else shift(mask))
            weights.append(core.core(replace(x, cts=(u,))).cts[0])
        return replace(x, cts=tuple(weights), dirty=True)

    return Circuit("masked", run, 1.0 / n[:, None] if rows.uniform is None else 1.0 / rows.uniform, size, offset)
