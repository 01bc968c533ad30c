"""What commands that get a fault read: a small checkpoint with its plan; a network's bundle, keys and uploads.

As a process, so that whoever asks for it loads no libraries: python tests/cli/fault_bases.py FOLDER
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("", "tests/cli", "tests/models", "tests/cgf/bundle")]


def make(base: Path) -> None:
    """All of it below a folder; the network where the library of ciphertexts is there."""
    import importlib.util

    import bad_bases

    base.mkdir(parents=True, exist_ok=True)
    bad_bases.digits_checkpoint(base / "vit" / "ckpt-1")
    if importlib.util.find_spec("desilofhe") is not None:
        import numpy as np
        from both_sides import work
        from small_networks import attentive, images, write_bundles

        write_bundles(base, attentive(k=1))
        np.save(base / "images.npy", images(5))
        work(base, ("keys", "encrypt"))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
