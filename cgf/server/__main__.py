"""The server's commands: python -m cgf.server bundle | run, or cgf-server after an installation."""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import argparse
import sys
from pathlib import Path

from cgf.bundle.command import ended_well, files_of, parsers
from cgf.memory import keep_freed_memory

EXAMPLES = """examples:
  python -m cgf.server bundle outputs/student --out bundles
  python -m cgf.server run uploads --bundle server --keys evaluation.keys --out results"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command that the command line names; exit code 2, with one sentence, for bad input."""
    parser, command = parsers(
        "cgf-server", "Makes the two bundles of a network, and computes on ciphertexts.", EXAMPLES
    )
    make = command("bundle", "makes a client's bundle and a server's from a checkpoint", bundle)
    make.add_argument("checkpoint", help="a run folder or a checkpoint in it")
    make.add_argument("--out", type=Path, required=True, help="folder that client/ and server/ are made in")
    make.add_argument("--tokens", type=int, nargs="+", default=[], help="counts of tokens that texts may have")
    make.add_argument("--samples", type=int, default=512, help="of training data, for the red light (default: 512)")
    make.add_argument(
        "--agreement",
        type=float,
        default=0.99,
        help="least share of these that the polynomials label as the model does as trained (default: 0.99)",
    )
    make.add_argument("--alone", action="store_true", help="a sample has ciphertexts of its own: the least latency")
    make.add_argument("--data-root", help="folder of data sets, where it is another than the checkpoint's")
    serve = command("run", "computes the encrypted logits of uploads", run)
    serve.add_argument("uploads", type=Path, help="folder of uploads, or one upload")
    serve.add_argument("--bundle", type=Path, required=True, help="folder of the server's bundle")
    serve.add_argument("--keys", type=Path, required=True, help="the client's evaluation.keys")
    serve.add_argument("--out", type=Path, required=True, help="folder of results, which go back to the client")
    serve.add_argument("--state", type=Path, default=Path("state"), help="folder of finished stages (default: state)")
    serve.add_argument("--save-after", type=float, default=30.0, help="keep a stage after so many s (default: 30)")
    serve.add_argument("--mode", default="cpu", help="of the library: cpu, parallel or gpu (default: cpu)")
    serve.add_argument("--processes", type=int, default=1, help="that share an upload's work, of mode cpu (default: 1)")
    serve.add_argument("--threads", type=int, help="of mode parallel (default: all cores)")
    return ended_well(parser.parse_args(arguments))


def bundle(given: argparse.Namespace) -> None:
    """The command ``bundle``."""
    from cgf.server.make import make_bundles  # loads torch: no server does

    made = make_bundles(
        given.checkpoint,
        given.out,
        given.tokens,
        given.samples,
        given.data_root,
        alone=given.alone,
        agreement=given.agreement,
    )
    agreement = made.agreement
    counts = ", ".join(f"{length.tokens} tokens: {length.samples}" for length in agreement.lengths)
    print(
        f"{made.folder}: {agreement.terms.max_level} levels, {agreement.terms.slots} slots, "
        f"{len(agreement.rotations)} rotation keys; samples at once, of {counts}; "
        f"{made.alike:.2%} of {made.limit.samples} training samples labelled as trained; "
        f"red light beyond {made.limit.bound:.4g}"
    )


def run(given: argparse.Namespace) -> None:
    """The command ``run``."""
    from cgf.bundle.sides import ServerBundle
    from cgf.server.run import Server

    keep_freed_memory()
    uploads = files_of(given.uploads, ".upload")
    server = Server(
        ServerBundle.read(given.bundle),
        given.keys,
        given.state,
        given.mode,
        given.threads,
        given.save_after,
        processes=given.processes,
    )
    report = server.run(uploads, given.out)
    if report.stages:  # none where every result was there already; reports of runs that made others stay
        report.write(free_report(given.out))
    print(given.out)


def free_report(out: Path) -> Path:
    """run.json in the folder of results, or run-2.json and on where there are reports already."""
    names = ("run.json", *(f"run-{number}.json" for number in range(2, 10**6)))
    return next(path for path in (out / name for name in names) if not path.exists())


if __name__ == "__main__":
    sys.exit(main())
