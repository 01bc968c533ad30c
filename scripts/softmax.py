"""One softmax on the rows of one matrix, through ciphertexts: python scripts/softmax.py scores.npy --engine desilo"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import argparse
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cgf.config import resolved
from cgf.errors import UserError, sentence, shortage
from cgf.named import short
from cgf.results import write_bytes
from cgf.target import check_writable
from cgf.types import Json

if TYPE_CHECKING:
    from cgf.softmax.base import Softmax

EXAMPLES = """examples:
  python scripts/softmax.py scores.npy
  python scripts/softmax.py scores.csv --method quad --engine sim
  python scripts/softmax.py scores.csv --method thor --option low=-8 --option high=8 --option n=16 --engine sim
  cgf softmax scores.npy --method cgf --engine desilo --out weights.npy"""


def main() -> int:
    """Reads the matrix, prints levels, seconds and error, and writes the weights where asked to."""
    parser = argparse.ArgumentParser(
        description="The softmax of each row of a matrix of scores, under CKKS.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("matrix", type=Path, help=".npy, or numbers in .csv, .tsv or .txt, a line a row")
    parser.add_argument(
        "--method", default="cgf", help="a softmax by name, each of which docs/methods has a page of (default: cgf)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the softmax, as its page in docs/methods lists them, such as low=-8; may be repeated "
        "(default: the softmax's own)",
    )
    parser.add_argument(
        "--engine", default="desilo", help="desilo encrypts; sim computes in the clear (default: desilo)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="largest error of the exponential, of softmaxes that have one and no polynomial of their own, such as cgf "
        "(default: 1e-4)",
    )
    parser.add_argument("--out", type=Path, help="the weights go there, as .npy")
    args = parser.parse_args()
    try:
        options = given(args.option)
        matrix = read(args.matrix)
        if args.out and (args.out.suffix != ".npy" or not args.out.absolute().parent.is_dir()):
            raise UserError(f"--out needs a file that ends in .npy, in a folder that is there, and is {args.out}")
        if args.out and args.out.exists():
            raise UserError(f"--out needs a name that is free, and {args.out} is there already")
        if args.out:
            check_writable(args.out)
        from cgf.interface.matrix import apply_softmax  # loads torch: not before the file was read

        applied = apply_softmax(matrix, asked(args.method, options), args.engine, tolerance=args.tolerance)
        rows, columns = matrix.shape
        named = " ".join([args.method, *args.option])
        print(
            f"{rows} x {columns}, softmax {named}, engine {args.engine}: {applied.levels} levels, "
            f"{applied.seconds:.2f} s, largest error {applied.error:.2e}, {sums(applied.weights)}"
        )
        if args.out:
            np.save(buffer := io.BytesIO(), applied.weights)
            write_bytes(args.out, buffer.getvalue())
            print(args.out)
    except UserError as error:
        print(sentence(error), file=sys.stderr)
        return 2
    except Exception as error:
        if (short_of := shortage(error)) is None:
            raise
        print(sentence(short_of), file=sys.stderr)
        return 2
    return 0


def asked(method: str, options: Json) -> str | Softmax:
    """The softmax of a name, with options where there are any. UserError for a name or an option that is none."""
    if not options:
        return method
    from cgf.interface.installing import softmax_of
    from cgf.softmax.load import softmax_from_json

    softmax_of(method)  # a name that is none is refused as such, and not as an option's
    return softmax_from_json({**options, "variant": method}, "--option")


def sums(weights: np.ndarray) -> str:
    """What the rows of weights sum to, in words: rows that vanished have sums near 0."""
    low, high = weights.sum(axis=1).min(), weights.sum(axis=1).max()
    return f"rows sum to {low:.3g}" + ("" if f"{low:.3g}" == f"{high:.3g}" else f" to {high:.3g}")


def given(options: list[str]) -> Json:
    """The values of options NAME=VALUE, each read as the configuration reads it. UserError for another form."""
    values: Json = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name.isidentifier() and equals and name != "variant"):
            raise UserError(f"--option needs NAME=VALUE, as in low=-8, and has {option}")
        if name in values:
            raise UserError(f"--option gives '{name}' twice")
        try:
            values |= resolved(OmegaConf.from_dotlist([f"{name}={value}"]))
        except (yaml.YAMLError, OmegaConfBaseException):
            raise UserError(
                f"--option {name} needs a value of yaml, such as -8 or [-8.0, 1.0], and has {value}"
            ) from None
    return values


def numbers(path: Path, separator: str | None) -> np.ndarray:
    """The rows of a text file, every line that is not empty one. ValueError for what is no number, and for rows of
    several lengths."""
    rows = [line.split(separator) for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    for row, fields in enumerate(rows, 1):
        if len(fields) != len(rows[0]):
            raise ValueError(f"row {row} has {len(fields)} numbers, and the first has {len(rows[0])}")
        for column, field in enumerate(fields, 1):
            if not is_number(field):
                raise ValueError(f"row {row} has {short(field)} in column {column}, which is no number")
    return np.array([[float(field) for field in fields] for fields in rows]) if rows else np.empty((0, 0))


def is_number(field: str) -> bool:
    """Whether a field of a text file is a number, by the rules of other programs: Python's own takes 1_000, too."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def read(path: Path) -> np.ndarray:
    """The matrix (R, N) of a file; UserError for a file without one."""
    separators = {".csv": ",", ".tsv": "\t", ".txt": None}
    if path.suffix != ".npy" and path.suffix not in separators:
        raise UserError(f"a matrix is read from .npy, {', '.join(separators)}, and {path} was given")
    if not path.is_file():
        raise UserError(f"a matrix is needed, and there is no file {path}")
    try:
        if path.suffix == ".npy":
            matrix = np.load(path, mmap_mode="r", allow_pickle=False)  # a header may say more than there is
        else:
            matrix = numbers(path, separators[path.suffix])
        matrix = matrix.astype(np.float64, casting="safe")
    except (OSError, ValueError, TypeError, EOFError, OverflowError, SyntaxError) as error:
        raise UserError(f"{path} needs to hold a matrix of numbers, and reading it failed: {error}") from None
    if matrix.ndim != 2 or not matrix.size:
        raise UserError(f"{path} needs to hold a matrix (R, N), and holds the shape {matrix.shape}")
    return matrix


if __name__ == "__main__":
    from cgf.ending import quiet

    with quiet():
        sys.exit(main())
