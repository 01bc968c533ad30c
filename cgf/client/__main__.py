"""The client's commands: python -m cgf.client keys | encrypt | decrypt, or cgf-client after an installation."""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import argparse
import sys
from pathlib import Path

from cgf.bundle.command import ended_well, files_of, parsers

EXAMPLES = """examples:
  python -m cgf.client keys --bundle client --keys keys
  python -m cgf.client encrypt images.npy --bundle client --keys keys --out uploads
  python -m cgf.client decrypt results --bundle client --keys keys --out logits.json"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command that the command line names; exit code 2, with one sentence, for bad input."""
    parser, command = parsers("cgf-client", "Makes keys, encrypts samples and decrypts logits.", EXAMPLES)
    keys = command("keys", "makes the keys: secret.key stays here, evaluation.keys goes to the server", make)
    one = command("encrypt", "encrypts samples", encrypt)
    one.add_argument("samples", type=Path, help="images: a folder, a file, or .npy; texts: .txt, a line a text")
    one.add_argument("--out", type=Path, required=True, help="new folder for the uploads, which go to the server")
    other = command("decrypt", "decrypts results: logits, labels, and reasons not to believe them", decrypt)
    other.add_argument("results", type=Path, help="folder of results, or one result")
    other.add_argument("--out", type=Path, required=True, help="new file for the logits, as JSON")
    for each in (keys, one, other):
        each.add_argument("--bundle", type=Path, required=True, help="folder of the client's bundle")
        each.add_argument("--keys", type=Path, required=True, help="folder of the keys")
        each.add_argument("--mode", default="cpu", help="of the library: cpu or parallel (default: cpu)")
    return ended_well(parser.parse_args(arguments))


def make(given: argparse.Namespace) -> None:
    """The command ``keys``."""
    from cgf.bundle.sides import ClientBundle
    from cgf.client.keys import make_keys

    report = make_keys(ClientBundle.read(given.bundle), given.keys, given.mode)
    report.write(given.keys / "keys.json")
    sizes = report.sizes
    print(f"{given.keys}: keys {report.key}, {sizes['public and evaluation keys'] / 2**20:.1f} MiB that are not secret")


def encrypt(given: argparse.Namespace) -> None:
    """The command ``encrypt``."""
    from cgf.bundle.sides import ClientBundle
    from cgf.client.encrypt import encrypt as run

    report = run(ClientBundle.read(given.bundle), given.keys, given.samples, given.out, given.mode)
    report.write(given.out / "encrypt.json")
    print(f"{given.out}: {report.sizes['encrypted input'] / 2**20:.1f} MiB of encrypted input")


def decrypt(given: argparse.Namespace) -> None:
    """The command ``decrypt``."""
    from cgf.bundle.sides import ClientBundle
    from cgf.client.decrypt import decrypt as run

    results = files_of(given.results, ".result")
    done = run(ClientBundle.read(given.bundle), given.keys, results, given.out, given.mode)
    print(given.out)
    if done.encrypted is None:
        print(f"{given.keys} does not say what was encrypted: results that are missing are not told", file=sys.stderr)
    elif done.samples < done.encrypted:
        print(f"{done.samples} of the {done.encrypted} samples encrypted have a result here", file=sys.stderr)
    if done.lights:
        print(
            f"red light: {done.lights} samples left the domain of the network and have no answer; the server must not "
            f"be told which",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
