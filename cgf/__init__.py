"""CGF-softmax and its rivals: training, polynomial evaluation and CKKS evaluation of attention.

The Python interface stands here as names that load their module when they are first used; nothing is loaded before.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cgf.interface.evaluate_model import ModelEvaluation as ModelEvaluation
    from cgf.interface.evaluate_model import evaluate_model as evaluate_model
    from cgf.interface.friendly_report import FriendlyReport as FriendlyReport
    from cgf.interface.friendly_report import friendly_report as friendly_report
    from cgf.interface.installing import install as install
    from cgf.interface.installing import uninstall as uninstall
    from cgf.interface.make_plan import ModelPlan as ModelPlan
    from cgf.interface.make_plan import make_plan as make_plan
    from cgf.interface.matrix import AppliedSoftmax as AppliedSoftmax
    from cgf.interface.matrix import apply_softmax as apply_softmax
    from cgf.interface.publish import Publication as Publication
    from cgf.interface.publish import push_to_hub as push_to_hub
    from cgf.interface.saved import load as load
    from cgf.interface.saved import save as save
    from cgf.softmax.base import Softmax as Softmax
    from cgf.softmax.bpmax import BPMax as BPMax
    from cgf.softmax.bpmax import CalibratedBPMax as CalibratedBPMax
    from cgf.softmax.cgf import CGF as CGF
    from cgf.softmax.chain_cgf import ChainCGF as ChainCGF
    from cgf.softmax.exact import Exact as Exact
    from cgf.softmax.poly_cgf import PolynomialCGF as PolynomialCGF
    from cgf.softmax.taylor import TaylorCGF as TaylorCGF

__version__ = "0.1.0"

_OF = {
    "cgf.interface.evaluate_model": ("ModelEvaluation", "evaluate_model"),
    "cgf.interface.friendly_report": ("FriendlyReport", "friendly_report"),
    "cgf.interface.installing": ("install", "uninstall"),
    "cgf.interface.make_plan": ("ModelPlan", "make_plan"),
    "cgf.interface.matrix": ("AppliedSoftmax", "apply_softmax"),
    "cgf.interface.publish": ("Publication", "push_to_hub"),
    "cgf.interface.saved": ("load", "save"),
    "cgf.softmax.base": ("Softmax",),
    "cgf.softmax.bpmax": ("BPMax", "CalibratedBPMax"),
    "cgf.softmax.cgf": ("CGF",),
    "cgf.softmax.chain_cgf": ("ChainCGF",),
    "cgf.softmax.exact": ("Exact",),
    "cgf.softmax.poly_cgf": ("PolynomialCGF",),
    "cgf.softmax.taylor": ("TaylorCGF",),
}
_MODULES = {name: module for module, names in _OF.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'cgf' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
