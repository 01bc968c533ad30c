"""Whether the tests find a fault: python scripts/repo/mutations.py [name ...]

Each row of ``MUTATIONS`` is one small edit of the source and the tests that it concerns. For each, the tracked and new
files of the checkout are copied, the edit is made in the copy, and the tests run there; the checkout itself is never
touched. Ends with code 1 if an edit survives, or no longer fits the source.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOFTMAX, HE, APPROX = "tests/cgf/softmax/", "tests/cgf/he/", "tests/cgf/approx/"
# name: (file, text, text in its place, tests)
MUTATIONS = {
    "bias not scaled": (
        "cgf/distill/temper.py",
        "in linear.parameters(recurse=False):",
        "in [linear.weight]:",
        "tests/cgf/distill/test_temper.py",
    ),
    "third cumulant's factor": (
        "cgf/softmax/cgf.py",
        "row_mean() * (1 / 6)",
        "row_mean() * (1 / 3)",
        SOFTMAX + "test_contract.py",
    ),
    "kurtosis without its excess": ("cgf/softmax/cgf.py", " - m2.square() * 3)", ")", SOFTMAX + "test_contract.py"),
    "ceiling in evaluation": (
        "cgf/softmax/cgf.py",
        "is not None and self.training:",
        "is not None:",
        SOFTMAX + "test_ceiling.py",
    ),
    "gradient without the shift": (
        "cgf/softmax/fused.py",
        "share.mul_(shift + 1.0)",
        "share.mul_(shift)",
        SOFTMAX + "test_fused.py",
    ),
    "mask left out of the exponentials": (
        "cgf/softmax/fused.py",
        "    part.mul_(_piece_of(ones, piece))\n    return o",
        "    pass\n    return o",
        SOFTMAX + "test_fused.py",
    ),
    "second centring of all rows": (
        "cgf/softmax/tensor.py",
        "torch.where(far, once.row_mean().data, 0.0)",
        "once.row_mean().data",
        SOFTMAX + "test_offset.py",
    ),
    "invalid keys in BPMax's mean": (
        "cgf/softmax/bpmax.py",
        "sums = torch.where(valid, powers, powers.new_zeros(()))",
        "sums = powers",
        SOFTMAX + "test_contract.py",
    ),
    "BPMax's smallest for its largest": (
        "cgf/softmax/bpmax.py",
        "torch.stack(values).amax(0)",
        "torch.stack(values).amin(0)",
        "tests/cgf/distill/test_processes.py",
    ),
    "two_relu without its share": (
        "cgf/softmax/published/two_relu.py",
        "(active + share)",
        "active",
        SOFTMAX + "test_contract.py",
    ),
    "one step of Cho's repair": (
        "cgf/softmax/published/normalize_square.py",
        "for _ in range(2):",
        "for _ in range(1):",
        SOFTMAX + "test_bounds.py",
    ),
    "slots of Cho at a bootstrap": (
        "cgf/softmax/published/normalize_square.py",
        "SMALL = 4 ",
        "SMALL = 1 ",
        HE + "test_every_softmax.py -k cho",
    ),
    "ARION's variance": ("cgf/softmax/published/statistical.py", "0.208 / a", "0.104 / a", SOFTMAX + "test_bounds.py"),
    "ARION refreshed as it is": (
        "cgf/softmax/published/statistical.py",
        "levels + 2, self.most)",
        "levels + 2)",
        HE + "test_every_softmax.py -k arion",
    ),
    "circuit by name": (
        "cgf/he/circuits.py",
        "as_it_stands if exponent is None else BUILDERS.get(exponent, as_it_stands)",
        "second_order if getattr(softmax, 'order', 0) == 2 else as_it_stands",
        HE + "test_definitions.py",
    ),
    "masked: sign of the squared sum": (
        "cgf/he/circuits.py",
        "(s1_squared, np.full_like(n, -0.5))",
        "(s1_squared, np.full_like(n, 0.5))",
        HE + "test_circuits.py",
    ),
    "first row's count for all": (
        "cgf/he/score_rows.py",
        "return n if bool((self.counts == n).all()) else None",
        "return n",
        HE + "test_circuits.py -k second_order",
    ),
    "rows of a part out of place": (
        "cgf/he/score_rows.py",
        "= full[self.index]",
        "= full[: len(self.index)]",
        HE + "test_circuits.py -k own_denominator",
    ),
    "padding columns count": (
        "cgf/he/packed.py",
        "or self.layout.padding_columns > 0",
        "",
        HE + "test_circuits.py -k higher_orders",
    ),
    "dirty entries in a product": (
        "cgf/he/packed.py",
        "dirty=a.dirty and b.dirty if not b.is_row else a.dirty",
        "dirty=False",
        HE + "test_every_softmax.py -k cgf",
    ),
    "a key switch too high": (
        "cgf/he/engines/sim.py",
        "SimCiphertext(np.roll(a.values, -step), min(a.level, self.key_switch_level), 2)",
        "SimCiphertext(np.roll(a.values, -step), a.level, 2)",
        HE + "test_conformance.py -k sim",
    ),
    "a block's last row left out": (
        "cgf/he/row_sets.py",
        "reach[order[b]].max()",
        "reach[order[b]].min()",
        HE + "test_row_sets.py",
    ),
    "guard one side alone": (
        "cgf/he/encrypted.py",
        "by_head(((y < lo) | (y > hi)) & keep)",
        "by_head((y < lo) & keep)",
        HE + "test_circuits.py -k records_count",
    ),
    "lost entries of one sample": (
        "cgf/he/encrypted.py",
        "ruined = wrong.amax(1) | lost",
        "ruined = wrong.amax(1)",
        HE + "test_circuits.py -k ruined",
    ),
    "hard and soft loss alike": (
        "cgf/distill/losses.py",
        "(1 - self.alpha) * hard",
        "self.alpha * hard",
        "tests/cgf/distill/test_parts.py",
    ),
    "temperature once": (
        "cgf/distill/losses.py",
        "self.tau**2 * soft",
        "self.tau * soft",
        "tests/cgf/distill/test_parts.py",
    ),
    "padding in the penalty's mean": (
        "cgf/distill/penalty.py",
        "keep.sum().clamp(min=1)",
        "keep.numel()",
        "tests/cgf/distill/test_control.py",
    ),
    "the penalty begins at its bound": (
        "cgf/distill/penalty.py",
        "-y - 0.85 * bound",
        "-y - bound",
        "tests/cgf/distill/test_control.py",
    ),
    "the dearest of feasible plans": (
        "cgf/plan/choose.py",
        "return min(first_that_serve(",
        "return max(first_that_serve(",
        APPROX + "test_plan.py",
    ),
    "lost entries in the mean error": (
        "cgf/evaluate/he_summary.py",
        "record.outputs or record.entries - record.lost for",
        "record.outputs or record.entries for",
        "tests/cgf/evaluate/test_evaluate_he_fields.py",
    ),
    "plain for exact in a result": (
        "cgf/evaluate/he_lines.py",
        '"accuracy_exact": self.share("exact", "label")',
        '"accuracy_exact": self.share("plain", "label")',
        "tests/cgf/evaluate/test_evaluate_he_fields.py",
    ),
}


def copy_to(folder: Path) -> Path:
    """A copy of the checkout without its results, below a folder."""
    copy = folder / "copy"
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in (n for n in names if not n.startswith("results/") and (ROOT / n).exists()):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():  # cgf/models and its kin lead to folders beside the package
            (copy / name).symlink_to(os.readlink(ROOT / name))
        else:
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return copy


def first_failure(copy: Path, tests: str) -> str | None:
    """The line of the first test that fails on a copy; None where all pass. SystemExit where pytest could not run."""
    data = os.environ.get("CGF_DATA_ROOT", str(ROOT.parent / "shared" / "data"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()],
        cwd=copy,
        env={**os.environ, "CGF_DATA_ROOT": data, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest ended with code {done.returncode}: {done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if done.returncode == 0 else (lines or ["pytest ended with code 1"])[0]


def check_passes(tests: str) -> None:
    """SystemExit where tests fail on the unedited copy: they would find any edit."""
    with tempfile.TemporaryDirectory() as folder:
        if failed := first_failure(copy_to(Path(folder)), tests):
            raise SystemExit(f"{tests} must pass on the unedited copy to find an edit, and does not: {failed}")


def survives(file: str, old: str, new: str, tests: str) -> bool:
    """Whether the tests pass on a copy of the checkout with one edit made; SystemExit where the text is not there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_to(Path(folder))
        source = (copy / file).read_text()
        if source.count(old) != 1:
            raise SystemExit(f"{file} must hold the text once, and holds it {source.count(old)} times: {old}")
        (copy / file).write_text(source.replace(old, new))
        failed = first_failure(copy, tests)
    print((failed or "SURVIVED")[:150])
    return failed is None


def main() -> int:
    """Applies the mutations asked for, one at a time, and says which ones no test noticed.

    Each selection of tests is run on the unedited copy before: one that fails there is named, and nothing is counted.
    """
    if {"--help", "-h"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    wanted = sys.argv[1:] or list(MUTATIONS)
    left = []
    if unknown := [name for name in wanted if name not in MUTATIONS]:
        print(f"error: a mutation must be one of {', '.join(MUTATIONS)}, and {unknown[0]!r} was given", file=sys.stderr)
        return 2
    for tests in dict.fromkeys(MUTATIONS[name][-1] for name in wanted):
        check_passes(tests)
    for name in wanted:
        print(f"{name}: ", end="", flush=True)
        if survives(*MUTATIONS[name]):
            left.append(name)
    print(f"{len(wanted) - len(left)} of {len(wanted)} were found" + (f"; not: {', '.join(left)}" if left else ""))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
