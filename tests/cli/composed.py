"""Entry points on configurations that are composed once: a setting is checked and put in as on the command line."""

import importlib.util
from functools import cache
from typing import Any

import hydra
from digits_checkpoint import ROOT, SCRIPTS
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict

from cgf.config import CONFIGS, NAMES, fail
from cgf.errors import UserError
from cgf.overrides import check_name, check_type, selected


@cache
def command_of(script):
    """The decorated main of an entry point; ``__wrapped__`` is what takes a composed configuration."""
    spec = importlib.util.spec_from_file_location(f"entry_{script}", ROOT / SCRIPTS[script])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@cache
def composed(script: str, overrides: tuple[str, ...] = ()) -> DictConfig:
    """The configuration with Hydra's own part; not to be changed."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return hydra.compose(script, list(overrides), return_hydra_config=True)


def own_part(whole: DictConfig) -> DictConfig:
    """A copy without Hydra's part, as an entry point's main has it."""
    part = OmegaConf.masked_copy(whole, [key for key in whole if key != "hydra"])
    OmegaConf.set_struct(part, True)
    return part


def value_of(text: str) -> Any:
    """What key=text reads as; UserError for what does not parse."""
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(f"key={text}").value()
    except HydraException:
        raise UserError(f"an override reads key=value, and 'key={text}' was given") from None


def with_setting(script, overrides, key, text):
    """The configuration with key=text, checked as the command line checks it. UserError where that refuses it."""
    whole = composed(script, overrides)
    cfg, value = own_part(whole), value_of(text)
    if key in NAMES:
        check_name(key, text, value)
    default = selected(cfg, key)
    with open_dict(cfg):
        OmegaConf.update(cfg, key, value, merge=False)
    OmegaConf.set_struct(cfg, True)
    if key in NAMES and "${" in text:
        check_name(key, text, selected(cfg, key))
    check_type(key, default, selected(cfg, key))
    return cfg


def check(key, text, default, value):
    """What the command line checks of key=text before any work. UserError where it is refused."""
    if key in NAMES:
        check_name(key, text, value)
    check_type(key, default, OmegaConf.create({"value": value}).value)


def run(script, overrides=(), key=None, text=None):
    """An entry point from composed parts, as a process would run it: it ends by SystemExit or returns."""
    whole = composed(script, tuple(overrides))
    HydraConfig.instance().set_config(whole)
    if key is None:
        cfg = own_part(whole)
    else:
        try:
            cfg = with_setting(script, tuple(overrides), key, text)
        except UserError as error:
            fail(error)
    command_of(script).__wrapped__(cfg)
