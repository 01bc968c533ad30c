"""A client and a server at work in one process: their commands as the command line gives them, and their folders."""

import json
import os
import shutil

import numpy as np
from small_networks import images, write_bundles

from cgf.client.__main__ import main as client
from cgf.seal import json_hash
from cgf.server.__main__ import main as server


def commands(folder):
    """Every command by its name, as arguments of a folder laid out as here."""
    bundle, keys = ["--bundle", folder / "client"], ["--keys", folder / "keys"]
    return {
        "keys": [client, "keys", *bundle, *keys],
        "encrypt": [client, "encrypt", folder / "images.npy", *bundle, *keys, "--out", folder / "uploads"],
        "run": [server, "run", folder / "uploads", "--bundle", folder / "server", "--keys", keys[1] / "evaluation.keys",
                "--out", folder / "results", "--state", folder / "state"],
        "decrypt": [client, "decrypt", folder / "results", *bundle, *keys, "--out", folder / "logits.json"],
    }  # fmt: skip


def call(side, *arguments):
    """Exit code of a command; argparse ends a process, and so is caught."""
    try:
        return side([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code


def work(folder, names=("keys", "encrypt", "run", "decrypt")):
    """Runs commands, each of which must end well."""
    for name in names:
        assert call(*commands(folder)[name]) == 0, name


def whole(folder, count=5, network=None, alone=False):
    """Bundles, samples and all that the four commands make of them."""
    write_bundles(folder, network, alone)
    np.save(folder / "images.npy", images(count))
    work(folder)
    return folder


def linked(folder, target):
    """A copy of a folder whose files are links: who changes one must replace it."""
    shutil.copytree(folder, target, copy_function=os.link)
    return target


def replace(path, content):
    path.unlink()
    path.write_bytes(content)


def reseal(folder, change):
    """bundle.json with ``change`` made to what it holds, and a seal that fits."""
    data = json.loads((folder / "bundle.json").read_text())
    data.pop("seal")
    data = change(data) or data
    replace(folder / "bundle.json", json.dumps({**data, "seal": json_hash(data)}).encode())
