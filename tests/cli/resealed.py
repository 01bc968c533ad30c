"""Checkpoints changed on purpose: sealed anew, so that a test meets what lies behind the seal; or without one."""

from cgf.results import read_json, write_json
from cgf.seal import RUN, run_content, sealed


def reseal(folder, **changes):
    """The folder as if it had been saved as it now is; changes: keys of run.json."""
    write_json(folder / RUN, sealed({**run_content(read_json(folder / RUN)), **changes}, folder))


def unseal(folder, **changes):
    """The folder as checkpoints were before they had hashes."""
    write_json(folder / RUN, {**run_content(read_json(folder / RUN)), **changes})


def reseal_softmax(folder, **described):
    """softmax.json and the configuration with another softmax, sealed anew."""
    whole, config = read_json(folder / "softmax.json"), read_json(folder / RUN)["config"]
    write_json(folder / "softmax.json", {**whole, "softmax": described})
    reseal(folder, config={**config, "softmax": described})
