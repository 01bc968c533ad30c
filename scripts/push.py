"""Pushes a checkpoint with its card to a model hub: python scripts/push.py outputs/RUN OWNER/NAME"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import argparse
import sys

from cgf.errors import UserError, sentence

EXAMPLES = """examples:
  python scripts/push.py outputs/RUN OWNER/NAME
  python scripts/push.py outputs/RUN OWNER/NAME --public
  cgf push outputs/RUN/ckpt-40 OWNER/NAME

back again: hf download OWNER/NAME --local-dir FOLDER, then ckpt=FOLDER"""


def main() -> int:
    """Pushes, and prints each file and the address."""
    parser = argparse.ArgumentParser(
        description="Push a checkpoint with its card, plan and results to a repository of the model hub.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", help="folder of a checkpoint, or of a run (its best checkpoint)")
    parser.add_argument("repository", help="OWNER/NAME; made where there is none")
    parser.add_argument("--public", action="store_true", help="a repository that is made is public (default: private)")
    args = parser.parse_args()
    from cgf.interface.publish import push_to_hub

    try:
        pushed = push_to_hub(args.checkpoint, args.repository, public=args.public)
    except UserError as error:
        print(sentence(error), file=sys.stderr)
        return 2
    print("\n".join([*pushed.files, pushed.address]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
