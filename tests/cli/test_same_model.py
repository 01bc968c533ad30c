"""Settings of the model beside ckpt: another model is refused, images of another size and drop path are taken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from digits_checkpoint import call

from cgf.checkpoint import read
from cgf.distill.same_model import model_of
from cgf.errors import UserError
from cgf.models.load import from_checkpoint

if TYPE_CHECKING:
    from cgf.checkpoint import Checkpoint
    from cgf.types import Json


@pytest.fixture(name="checkpoint")
def checkpoint_fixture(trained_run: Path) -> Checkpoint:
    return read(trained_run)


def node(checkpoint: Checkpoint, **changed: object) -> Json:
    return {**checkpoint.run["config"]["model"], **changed}


def test_what_is_not_named_is_the_checkpoints(checkpoint: Checkpoint) -> None:
    own, changes = model_of(checkpoint, {"name": "minilm", "path": "elsewhere"}, ["ckpt", "train.lr"])
    assert own == checkpoint.run["config"]["model"]
    assert changes == {}


@pytest.mark.parametrize("named", [["model"], ["experiment"]])
def test_another_model_is_refused(checkpoint: Checkpoint, named: list[str]) -> None:
    with pytest.raises(UserError, match=r"model=minilm was given with ckpt=.*where it is vit_digits"):
        model_of(checkpoint, {"name": "minilm"}, named)
    assert model_of(checkpoint, node(checkpoint), named)[1] == {}


def test_a_setting_that_the_weights_do_not_take_is_refused(checkpoint: Checkpoint) -> None:
    asked = node(checkpoint, options={"depth": 6})
    with pytest.raises(UserError, match=r"model.options=.*'depth': 6"):
        model_of(checkpoint, asked, ["model.options.depth"])


def test_a_default_that_a_run_of_before_did_not_take_is_not_believed(checkpoint: Checkpoint) -> None:
    checkpoint.run["model"] = "minilm"
    assert model_of(checkpoint, {"name": "minilm"}, ["model"])[0] == {"name": "minilm"}


def test_images_of_another_size_bring_the_positions_to_their_grid(checkpoint: Checkpoint) -> None:
    own, changes = model_of(checkpoint, node(checkpoint, img_size=12), ["model.img_size"])
    assert own["img_size"] == 12
    host = from_checkpoint(checkpoint, to_train=True, changes=changes)[0]
    before = from_checkpoint(checkpoint, to_train=True)[0]
    assert host.inputs.image is not None
    assert host.inputs.image.size == (1, 12, 12)
    assert host.describe()["source"]["options"]["img_size"] == 12
    there, was = host.model.state_dict(), before.model.state_dict()
    assert there["pos_embed"].shape[1] == 36
    assert was["pos_embed"].shape[1] == 16
    assert all(torch.equal(there[key], was[key]) for key in was if key != "pos_embed")
    apart = (there["pos_embed"].mean(1) - was["pos_embed"].mean(1)).abs().max()
    assert apart < 0.2 * was["pos_embed"].abs().max()  # resampled, not made anew
    logits = host.logits({"pixel_values": torch.zeros(2, 1, 12, 12)})
    assert logits.shape == (2, 10)


@pytest.mark.parametrize(("side", "says"), [(9, "no multiple of them"), (0, "img_size"), ("x", "img_size")])
def test_a_size_that_patches_do_not_fill_is_refused(checkpoint: Checkpoint, side: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        from_checkpoint(checkpoint, to_train=True, changes={"img_size": side})


def test_branches_are_dropped_in_a_student_whose_teacher_dropped_none(checkpoint: Checkpoint) -> None:
    changes = model_of(checkpoint, node(checkpoint, drop_path=0.5), ["model.drop_path"])[1]
    host = from_checkpoint(checkpoint, to_train=True, changes=changes)[0]
    rates = [module.drop_prob for module in host.model.modules() if type(module).__name__ == "DropPath"]
    assert max(rates) == 0.5
    assert host.describe()["source"]["options"]["drop_path_rate"] == 0.5


def test_the_command_trains_at_another_size_and_names_the_run_by_the_checkpoints_model(
    trained_run: Path, tmp_path: Path
) -> None:
    small = ["train.batch_size=16", "task.limit={train: 32, val: 16, test: 16}", f"outputs={tmp_path}"]
    done = call("train", f"ckpt={trained_run}", "+model.img_size=12", "train.max_steps=1", *small)
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.iterdir()
    assert run.name.startswith("vit_digits-digits-cgf")
    kept = read(run)
    assert kept.run["config"]["model"]["img_size"] == kept.run["image"]["size"][1] == 12
    plain = call("eval_plain", f'ckpt="{run}"', f"out={tmp_path}/plain.json")
    assert plain.returncode == 0, plain.stderr


def test_an_experiment_of_another_depth_is_refused(trained_run: Path, tmp_path: Path) -> None:
    done = call("train", "experiment=digits_network", f"ckpt={trained_run}", f"outputs={tmp_path}/out")
    assert done.returncode == 2
    assert "model.options=" in done.stderr
    assert "'depth': 2" in done.stderr
    same = ["train.max_steps=1", "task.limit={train: 32, val: 16, test: 16}", "train.batch_size=16"]
    student = call("train", "experiment=digits_student", f"ckpt={trained_run}", f"outputs={tmp_path}/out", *same)
    assert student.returncode == 0, student.stderr


def test_the_command_refuses_another_model_beside_a_checkpoint(trained_run: Path, tmp_path: Path) -> None:
    done = call("train", f"ckpt={trained_run}", "model=vit_tiny", f"outputs={tmp_path}/out")
    assert done.returncode == 2
    assert "a checkpoint keeps its model, and model=vit_tiny was given" in done.stderr
    assert not (tmp_path / "out").exists()
