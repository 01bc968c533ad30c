"""The experiments: each composes, its command is its first line, the runs of its grid have names of their own."""

import importlib.util

import hydra
import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from cgf.config import CONFIGS, build, compose, run_name
from cgf.distill.losses import DistillationLoss
from cgf.distill.settings import Settings
from cgf.overrides import swept
from cgf.softmax.base import Softmax

EXPERIMENTS = sorted((CONFIGS / "experiment").glob("*.yaml"))
LLAMA_GRID = {"train.batch_size": "32,64", "train.lr": "9e-6,1e-5,3e-5,5e-5"}
VIT_GRID = {
    "train.batch_size": "64,128",
    "train.lr": "1e-5,5e-5,1e-4",
    "model.drop_path": "0.0,0.1,0.2",
    "tune": "attention_alone,full",
    "distill": "kd,kd_vit_large",
}
# epochs, and the grid of table 'configurations'
LLAMA = {
    "exact": (3, {}),
    "cgf": (5, LLAMA_GRID),
    "cgf_low": (5, LLAMA_GRID),
    "lora": (3, {}),
    "bpmax": (20, {**LLAMA_GRID, "softmax.p": "1,3,5,7", "softmax.c": "1.0,3.0,5.0,7.0,20.0"}),
}
VIT = {
    "exact": (0, {}),
    "cgf": (15, VIT_GRID),
    "cgf_low": (15, {**VIT_GRID, "softmax.degree": "3,5"}),
    "bpmax": (20, {**VIT_GRID, "softmax.p": "1,3,5,7,9", "softmax.c": "1.0,3.0,5.0,7.0,9.0,20.0,40.0,60.0"}),
}
PAPER = {
    (f"llama_{row}", f"task={task}"): facts
    for task in ("clinc150", "banking77", "sst2")
    for row, facts in LLAMA.items()
}
PAPER |= {
    (f"vit_{row}", f"model={model}"): facts
    for model in ("vit_base", "vit_tiny", "deit_base", "deit_tiny")
    for row, facts in VIT.items()
}


def grid(path):
    return dict(OmegaConf.select(OmegaConf.load(path), "hydra.sweeper.params") or {})


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.stem)
def test_an_experiment_composes_and_says_its_command(path):
    first, second = path.read_text().splitlines()[:2]
    assert first == "# @package _global_" and f"experiment={path.stem}" in second
    assert second.startswith("# python train.py --multirun " if grid(path) else "# python train.py experiment=")
    cfg = compose("train", [f"experiment={path.stem}"])
    Settings(**cfg.train)
    DistillationLoss(cfg.distill.tau, cfg.distill.alpha)
    assert isinstance(build(cfg.softmax), Softmax)
    needs_teacher = cfg.distill.teacher == "self" and cfg.task.name != "imagenet1k"
    assert ("ckpt=" in second or "distill.teacher=" in second) == needs_teacher
    axes = {key: str(values).split(",") for key, values in grid(path).items()}
    for key, values in axes.items():  # both ends of an axis compose, and name their runs
        ends = [f"{k}={v[0]}" for k, v in axes.items() if k != key]
        runs = {compose("train", [f"experiment={path.stem}", *ends, f"{key}={v}"]).run for v in (values[0], values[-1])}
        assert len(runs) == min(2, len(values))


@pytest.mark.parametrize(("name", "choice"), PAPER)
def test_rows_of_the_paper(name, choice):
    epochs, wanted = PAPER[name, choice]
    cfg = compose("train", [f"experiment={name}", choice])
    group, chosen = choice.split("=")
    assert cfg[group].name == chosen and chosen in cfg.run  # models, or tasks, have runs of their own
    assert cfg.train.epochs == epochs and grid(CONFIGS / "experiment" / f"{name}.yaml") == wanted
    assert (cfg.seed, cfg.distill.tau, cfg.distill.alpha) == (42, 2.0, 0.5)
    assert epochs == 0 or cfg.train.patience == 3
    assert cfg.task.get("max_length", 128) == 128
    if name.endswith("_low"):
        assert (cfg.softmax.degree, cfg.softmax.x0) == ((1, -3.0) if name.startswith("llama") else (3, -10.0))
    if name.startswith("vit") and epochs:  # the head of the published weights stays as it is
        assert (cfg.tune.mode, cfg.tune.head) == ("attention", False)
    if name.endswith("_lora"):
        assert (cfg.tune.mode, cfg.tune.rank, cfg.tune.scale, cfg.distill.teacher) == ("lora", 16, 32, None)


def test_the_large_teacher_is_a_model_of_the_hub():
    node = compose("train", ["experiment=vit_cgf", "model=deit_tiny", "distill=kd_vit_large"]).distill.teacher
    assert node._target_ == "cgf.models.vit.load" and node.timm_name.startswith("vit_large_patch16_224.")


def plugin(name):
    found = importlib.util.find_spec("hydra_plugins") and importlib.util.find_spec(f"hydra_plugins.{name}")
    return pytest.mark.skipif(not found, reason=f"{name} is not installed: pip install -r requirements.txt")


@plugin("hydra_submitit_launcher")
def test_a_cluster_takes_the_same_sweep():
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = hydra.compose(
            "train",
            ["experiment=llama_bpmax", "task=sst2", "hydra/launcher=slurm", "hydra.launcher.partition=gpu"],
            return_hydra_config=True,
        )
    launcher, sweeper = cfg.hydra.launcher, cfg.hydra.sweeper
    assert launcher._target_.endswith("SlurmLauncher")
    assert (launcher.partition, launcher.gpus_per_node, launcher.max_num_timeout) == ("gpu", 1, 5)
    assert sweeper.params["softmax.p"] == "1,3,5,7"
    hydra.utils.instantiate(launcher)  # the plugin knows every field


@pytest.fixture
def named(monkeypatch):
    """named(keys, *overrides): the name of a run in a sweep that gives these keys several values."""
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # put back at the end

    def name(keys, *overrides):
        monkeypatch.setenv("CGF_SWEPT", keys)
        with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            whole = hydra.compose("train", list(overrides), return_hydra_config=True)
        HydraConfig.instance().set_config(whole)
        return run_name(whole)

    return name


@pytest.mark.parametrize("own", ["experiment=digits_student", "softmax=bpmax"])  # the experiment names its run
def test_jobs_of_a_sweep_over_starts_or_experiments_have_names_of_their_own(named, own):
    one, other, swept = [own, "ckpt=outputs/A/ckpt-4"], [own, "ckpt=more/A/ckpt-4"], "hydra.mode=MULTIRUN"
    alone = named("", *one)
    assert "ckpt" not in alone and "experiment" not in alone
    assert named("ckpt,experiment", *one) == named("seed", *one, swept) == alone
    first, second = named("ckpt,seed", *one, swept), named("ckpt,seed", *other, swept)
    assert first != second and first.startswith(f"{alone}-ckpt=A-") and second.startswith(f"{alone}-ckpt=A-")
    assert named("experiment", *one, swept).startswith(f"{alone}-experiment=")
    assert named("ckpt", *one, swept, "run=mine") == "mine"


def test_settings_that_end_alike_have_names_of_their_own(named):
    ends = ("penalty.weight", "penalty.row_sum.weight", "penalty.inputs.weight", "temper.samples", "calibrate.samples")
    names = [named("", f"{setting}=3") for setting in ends]
    assert len(set(names)) == 5 and names[0].endswith("-weight=3"), names
    assert names[1].endswith("-penalty.row_sum.weight=3") and names[2].endswith("-penalty.inputs.weight=3")
    assert named("", "temper.samples=3").endswith("-samples=3") and named("", "task.seed=3").endswith("-seed=3")
    assert named("", "+task.mine=3").endswith("-mine=3") and named("", "train.lr=3").endswith("-lr=3")


def test_a_command_tells_its_jobs_what_it_sweeps():
    given = ["ckpt=A,B", "experiment=digits_student", "seed=range(0,3)", "+task.x=1,2"]
    assert swept(given) == ["ckpt", "seed", "task.x"]
