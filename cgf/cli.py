"""The console command ``cgf``: each verb is the entry point of the same name, with the same arguments."""

from __future__ import annotations

import importlib
import sys

from cgf.ending import quiet
from cgf.help import nearest
from cgf.stopping import ends_at_once

COMMANDS = {
    "train": "fine-tunes or distils a model with a softmax of your choice",
    "plan": "plans the polynomial of a checkpoint from the range that it shows on training data",
    "eval-plain": "evaluates a checkpoint in the clear",
    "eval-he": "evaluates a checkpoint with every softmax under CKKS",
    "friendly": "tells whether a model suits CGF-softmax, by layer and head",
    "merge-shards": "puts the shards of one evaluation together",
    "softmax": "takes one softmax of the rows of one matrix under CKKS",
    "push": "pushes a checkpoint with its card to a model hub",
    "report": "prints the results below a folder and writes them as one HTML page",
}
EXAMPLES = (
    "cgf train softmax=exact run=teacher",
    "cgf train softmax=cgf distill=kd ckpt=outputs/teacher run=student",
    "cgf plan ckpt=outputs/student",
    "cgf eval-he ckpt=outputs/student he=desilo he.samples=20",
)


def main() -> None:
    """Runs the verb that the command line names; exit code 2, with the verbs, for one that there is not."""
    verb = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if verb in ("-h", "--help"):
        with quiet():
            _help()
        return
    if verb not in COMMANDS:
        print(
            f"error: cgf needs one of {', '.join(COMMANDS)}, and {verb!r} was given{nearest(verb, list(COMMANDS))}",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.argv = [f"cgf {verb}", *sys.argv[2:]]
    with quiet(), ends_at_once():  # the libraries load here
        sys.exit(importlib.import_module(f"cgf.commands.{verb.replace('-', '_')}").main())


def _help() -> None:
    print("usage: cgf VERB [key=value ...]\n")
    print("\n".join(f"  {name:13} {what}" for name, what in COMMANDS.items()))
    print("\nexamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES))
    print("\nwhat a verb takes: cgf VERB --help")


if __name__ == "__main__":
    main()
