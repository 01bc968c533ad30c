"""What stands around a softmax in a model: layer, mode and heads reach the softmax through all of it."""

import copy
import pickle

import pytest
import torch
from conftest_models import batch_for, small_vit

from cgf.distill.curriculum import Curriculum
from cgf.distill.matching import WeightsTap
from cgf.distill.temper import FactorSearch, ScalingProbe
from cgf.evaluate.he_run import ShapeProbe
from cgf.evaluate.observe import Onlooker, PolynomialReading
from cgf.he.encrypted import Encrypted
from cgf.models.install import install, install_copies, installed_softmaxes
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Around

AROUND = {
    "around": Around,
    "stage": lambda softmax: Curriculum(1.0).watch([softmax])[0],
    "tap": lambda softmax: WeightsTap(softmax, lambda weights: None),
    "factor search": FactorSearch,
    "scaling probe": ScalingProbe,
    "shape probe": ShapeProbe,
    "onlooker": lambda softmax: Onlooker(softmax, Exact()),
    "polynomials": PolynomialReading,
    "encrypted": lambda softmax: Encrypted(softmax, None),
}


@pytest.mark.parametrize("make", AROUND.values(), ids=AROUND)
def test_layer_heads_and_name_reach_the_softmax_through_two_slots_around_it(make):
    host, softmaxes = small_vit(), [ChainCGF(trainable="head") for _ in range(3)]
    slots = install(host.model, lambda layer: Around(make(softmaxes[layer])))
    assert installed_softmaxes(host.model) == slots
    for layer, (slot, softmax) in enumerate(zip(slots, softmaxes, strict=True)):
        assert slot.softmax is softmax and slot.inner.softmax is softmax and slot.name == "cgf_chain"
        assert slot.layer == softmax.layer == layer
        assert softmax.parameters()[0].shape == (4, 1, 1)  # of the layer's heads


@pytest.mark.parametrize("make", AROUND.values(), ids=AROUND)
def test_the_mode_of_the_model_reaches_the_softmax_unless_it_is_encrypted(make):
    softmax = CGF()
    slot = Around(make(softmax))
    slot.training = True
    assert slot.training and softmax.training == (make is not AROUND["encrypted"])
    slot.training = False
    assert not slot.training and not softmax.training


@torch.no_grad()
def test_a_slot_around_changes_no_number_and_leaves_the_softmax_clean():
    host = small_vit()
    batch, plain = batch_for(host), install_copies(host.model, CGF())
    wanted = host.logits(batch)
    softmaxes = [CGF() for _ in range(3)]
    install(host.model, lambda layer: WeightsTap(Curriculum(1.0).watch([softmaxes[layer]])[0], lambda weights: None))
    assert torch.equal(host.logits(batch), wanted)
    assert vars(softmaxes[0]).keys() == vars(plain[0]).keys()  # what travels to workers is the definition, as it was
    assert type(pickle.loads(pickle.dumps(softmaxes[0]))) is CGF
    twin = copy.deepcopy(installed_softmaxes(host.model)[0])
    assert twin.softmax is not softmaxes[0] and twin.softmax.layer == 0


def test_a_slot_is_given_by_a_function_and_not_copied():
    with pytest.raises(TypeError, match="'Around' object is not callable"):
        install(small_vit().model, Around(CGF()))
