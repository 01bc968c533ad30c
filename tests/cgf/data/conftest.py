from pathlib import Path

import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from cgf.data.task import ImageInput, Inputs
from cgf.errors import UserError

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def make():
    """Builds configs/task/<name>.yaml the way entry points do, with overrides."""

    def build(name, root=None, /, **overrides):
        config = OmegaConf.load(REPOSITORY / "configs" / "task" / f"{name}.yaml")
        whole = OmegaConf.create({"data": {"root": str(root) if root else None}, "task": config})
        whole.task = OmegaConf.merge(whole.task, overrides)
        try:
            return instantiate(whole.task)
        except InstantiationException as error:
            # Hydra wraps what a constructor raises; entry points unwrap it in the same way.
            if isinstance(error.__cause__, UserError):
                raise error.__cause__ from None
            raise

    return build


@pytest.fixture(scope="session")
def text_inputs(data_root) -> Inputs:
    from transformers import AutoTokenizer

    return Inputs(tokenizer=AutoTokenizer.from_pretrained(data_root / "weights" / "stories260k" / "hf"))


@pytest.fixture
def grey() -> Inputs:
    return Inputs(image=ImageInput(size=(1, 8, 8), mean=(0.5,), std=(0.5,)))


@pytest.fixture
def colour() -> Inputs:
    return Inputs(image=ImageInput(size=(3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=0.9))
