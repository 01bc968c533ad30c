"""What each process of test_processes.py runs: train.py several times over, noting which samples it was shown.

process_driver.py FOLDER: FOLDER/runs.json lists {"name", "arguments", "stop"}; stop: as if killed once that step is
saved. Each run leaves FOLDER/<name>-<rank>.json.
"""

import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import torch
from hydra.core.global_hydra import GlobalHydra

import train
from cgf.distill.trainer import Trainer

FOLDER = Path(sys.argv[1])
TORN = type("Torn", (BaseException,), {})


def prints(pixels):
    return [hashlib.sha256(image.numpy().tobytes()).hexdigest() for image in pixels]


class Notes:
    """Of one run: images by epoch, the weights at its end."""

    def __init__(self, stop):
        self.stop, self.seen, self.shares, self.own_step, self.own_save = stop, {}, [], Trainer._step, Trainer._save

    def step(self, trainer, batch, share):
        self.trainer = trainer
        if share:
            self.seen.setdefault(trainer.progress.epoch, []).extend(prints(batch["pixel_values"]))
        self.shares.append(share)
        return self.own_step(trainer, batch, share)

    def save(self, trainer):
        self.own_save(trainer)
        if trainer.progress.step == self.stop:
            raise TORN

    def write(self, name):
        trainer = self.trainer
        digest = hashlib.sha256()
        for tensor in [
            *trainer.host.model.state_dict().values(),
            *(t for s in trainer.softmaxes for t in s.tensors().values()),
        ]:
            digest.update(tensor.detach().numpy().tobytes())
        images = [trainer.train_set[i]["pixel_values"] for i in range(len(trainer.train_set))]
        about = {
            "count": trainer.processes.count,
            "weights": digest.hexdigest(),
            "progress": vars(trainer.progress),
            "seen": self.seen,
            "samples": prints(images),
            "shares": self.shares,
        }
        (FOLDER / f"{name}-{trainer.processes.rank}.json").write_text(json.dumps(about))


def run(name, arguments, stop=None):
    notes = Notes(stop)
    Trainer._step = lambda trainer, batch, share: notes.step(trainer, batch, share)
    Trainer._save = lambda trainer: notes.save(trainer)
    GlobalHydra.instance().clear()
    sys.argv = ["train.py", *arguments]
    try:
        train.main()
    except TORN:
        pass
    finally:
        Trainer._step, Trainer._save = notes.own_step, notes.own_save
    notes.write(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in json.loads((FOLDER / "runs.json").read_text()):
        run(**each)
