"""Numbers that others published, once each and with their source; none of them was measured here.

A softmax is named as its definition names itself (``Softmax.name``), so that a table puts the published number beside
its own; one that no publication mentions is simply absent.
"""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "CGF-softmax paper"


@dataclass(frozen=True)
class Runtime:
    """One softmax under CKKS as a publication timed it.

    key      the name of the number in results/bench/softmax.json; empty where that file does not state it
    title    the method, its rows and their interval
    seconds  of all ``entries`` together
    entries  score entries: rows times columns
    machine  what it ran on
    source   the paper and the place in it
    """

    key: str
    title: str
    seconds: float
    entries: int
    machine: str
    source: str

    @property
    def us_per_entry(self) -> float:
        """Microseconds a score entry."""
        return 1e6 * self.seconds / self.entries


RUNTIMES = (
    Runtime(
        "paper_cgf_8_threads",
        "CGF-softmax paper, 256 x 256 on [-128, 0]",
        3.25,
        256 * 256,
        "8 threads",
        f"{PAPER}, table 'softmax_runtime'",
    ),
    Runtime(
        "paper_cho_8_threads",
        "Cho et al. 2024 as the CGF-softmax paper ran it",
        107.65,
        256 * 256,
        "8 threads",
        f"{PAPER}, table 'softmax_runtime'",
    ),
    Runtime(
        "cho_8192_softmaxes_of_256_one_thread",
        "Cho et al. 2024, 8,192 rows of 256",
        486.0,
        8192 * 256,
        "one thread",
        "Cho et al., CCS 2024",
    ),
    Runtime(
        "",
        "the CGF-softmax authors' code, 256 x 256 N(0, 1) on [-7, 1], 8 levels",
        1.688,
        256 * 256,
        "CPU",
        "the code of the CGF-softmax paper",
    ),
    Runtime("", "THOR, 256 rows of 128", 3.70, 256 * 128, "A100", "THOR, Moon et al. 2024"),
    Runtime("", "Cho et al. 2024 as THOR ran it, 256 rows of 128", 9.78, 256 * 128, "A100", "THOR, Moon et al. 2024"),
)


@dataclass(frozen=True)
class Attention:
    """What a publication states of products of encrypted matrices, or of a whole model that they are a part of.

    second_hand   taken from another publication that quotes it
    """

    title: str
    figure: str
    machine: str
    source: str
    second_hand: bool = False


ATTENTIONS = (
    Attention("JKLS18, one 64 x 64 product", "0.6 s, 2.3 µs a multiply-add", "CPU", "Jiang et al., CCS 2018"),
    Attention("STIP, QK^T of 128 tokens", "195 key switches", "a count", "STIP", second_hand=True),
    Attention("MOAI, QK^T of 128 tokens", "381 key switches", "a count", "STIP's comparison", second_hand=True),
    Attention("THOR, QK^T of 128 tokens", "460 key switches", "a count", "STIP's comparison", second_hand=True),
    Attention("Powerformer, QK^T of 128 tokens", "486 key switches", "a count", "STIP's comparison", second_hand=True),
    Attention("ARION, BERT-base whole", "225 s a sentence, amortised", "64 threads, 600 GB", "ARION"),
    Attention("MOAI, BERT-base whole", "576 s a sentence, amortised", "CPU", "MOAI"),
    Attention("FIDESlib's OpenFHE, BERT-tiny whole", "118 s a sentence", "CPU", "a user's run", second_hand=True),
    Attention("Tricycle, BERT-tiny whole", "322 s a sentence", "CPU", "Tricycle"),
)


@dataclass(frozen=True)
class PaperK:
    """Squarings that the paper takes for one model and task, by method of the exponential."""

    where: str
    chebyshev: int
    limit: int


# CGF-softmax paper, appendix, table 'Specific values of k'
PAPER_K = (
    PaperK("LLaMA-3.2-1B Clinc150", 3, 6),
    PaperK("LLaMA-3.2-1B Banking77", 3, 6),
    PaperK("LLaMA-3.2-1B SST-2", 4, 7),
    PaperK("ViT-Base ImageNet-1k", 6, 8),
    PaperK("DeiT-Base ImageNet-1k", 3, 6),
    PaperK("ViT-Tiny ImageNet-1k", 1, 8),
    PaperK("DeiT-Tiny ImageNet-1k", 1, 7),
)

# CGF-softmax paper, table 'depth_analysis': levels, for those publications' own models and settings
DEPTH: dict[str, int | str] = {"thor": 30, "tricycle": 17, "arion": 14, "fixed_max": "22 / 26 / 30", "cgf": "7 to 10"}

# CGF-softmax paper, text on its figures of accuracy against depth: "multiplicative depths of up to" so many levels
FIGURE_DEPTH = {"cho": 52, "bpmax": 2}

# CGF-softmax paper, table 'benefitofcgf': (maximum, division, data-adaptivity)
TRAITS: dict[str, tuple[str, bool, bool]] = {
    "hetal": ("comparison", True, True),
    "fixed_max": ("fixed", True, False),
    "tricycle": ("bound", True, True),
    "arion": ("bound", True, True),
    "cho": ("fixed", True, False),
    "thor": ("fixed", True, False),
    "cgf": ("none", False, True),
}

# CGF-softmax paper, table 'softmax_complexity': the L of its formulas
LEVELS_AFTER_BOOTSTRAP = 10

# CGF-softmax paper, figure of the noise: unit roundoffs as it draws them; the one number that it states, and the mean
# error that the authors' code states
PRECISIONS = {"FP32": 2.0**-23, "FP16": 2.0**-10, "BF16": 2.0**-7}
NOISE = {"cgf_depth_7": 3.05e-10, "authors_mean_error": 1.1222e-11}

# Bossuat et al., Security Guidelines for Implementing Homomorphic Encryption, 2024/463: the most bits of the
# whole modulus (log QP) by ring dimension N, for a uniform ternary secret and 128 bits against classical attacks
LOG_Q_BOUND_128 = {8192: 214, 16384: 430, 32768: 868, 65536: 1747}


def runtimes_by_key() -> dict[str, float]:
    """Seconds of the published softmaxes that results/bench/softmax.json states beside its own."""
    return {runtime.key: runtime.seconds for runtime in RUNTIMES if runtime.key}
