"""Which models take another softmax, tried on small ones: python scripts/repo/hosts.py (--check: page stale?)"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from cgf.errors import UserError
from cgf.types import Json, Options

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "hosts.md"
MEASURED = ROOT / "results" / "hosts.json"  # by scripts/repo/host_commands.py
COMMANDS = ("train", "plan", "eval_plain", "eval_he", "report")
PROJECTIONS = re.compile(r"(q_proj|k_proj|query|key|qkv|Wqkv|q_lin|k_lin|c_attn|attn\.q|attn\.k)\.weight$")

TEXT: Options = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "pad_token_id": 0,
    "max_position_embeddings": 64,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
IMAGE: Options = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}
# a name in transformers, the ending of its class, a remark, and what is small of its configuration
TRANSFORMERS: list[tuple[str, str, str, Options]] = [
    ("GPT2", "Sequence", "", {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 0}),
    ("Llama", "Sequence", "", TEXT | {"num_key_value_heads": 2, "attention_bias": True}),
    ("Mistral", "Sequence", "window of 3", TEXT | GROUPED | {"sliding_window": 3}),
    ("Qwen3", "Sequence", "", TEXT | GROUPED | {"attention_bias": True}),
    ("Gemma", "Sequence", "", TEXT | GROUPED),
    ("Gemma2", "Sequence", "soft cap of 2", TEXT | GROUPED | {"attn_logit_softcapping": 2.0}),
    ("Gemma3Text", "Sequence", "window of 3", TEXT | GROUPED | {"sliding_window": 3}),
    ("GptOss", "Sequence", "sinks", TEXT | GROUPED | {"num_local_experts": 2, "num_experts_per_tok": 1}),
    ("Phi", "Sequence", "norms on queries and keys", TEXT | {"qk_layernorm": True}),
    (
        "OPT",
        "Sequence",
        "",
        {k: v for k, v in TEXT.items() if k != "intermediate_size"} | {"ffn_dim": 32, "word_embed_proj_dim": 32},
    ),
    ("Bert", "Sequence", "", TEXT),
    ("Roberta", "Sequence", "", TEXT),
    (
        "DistilBert",
        "Sequence",
        "",
        {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 32, "pad_token_id": 0},
    ),
    ("ModernBert", "Sequence", "window in two of three layers", TEXT | {"num_hidden_layers": 3, "local_attention": 4}),
    (
        "ModernBert",
        "Sequence",
        "no window",
        TEXT | {"global_attn_every_n_layers": 1, "layer_types": ["full_attention"] * 2},
    ),
    ("DebertaV2", "Sequence", "", TEXT),
    ("ViT", "Image", "", IMAGE),
    ("DeiT", "Image", "", IMAGE),
    ("Dinov2", "Image", "", IMAGE),
    ("CLIP", "Image", "its image tower", {"vision_config": IMAGE}),
    ("Siglip", "Image", "its image tower", {"vision_config": IMAGE}),
    ("Beit", "Image", "no position bias", IMAGE),
    ("Beit", "Image", "relative position bias", IMAGE | {"use_relative_position_bias": True}),
    ("Swin", "Image", "", {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}),
]
SMALL = {"img_size": 32, "patch_size": 16, "embed_dim": 32, "depth": 2, "num_heads": 4}
TIMM: list[tuple[str, Options]] = [
    ("vit_tiny_patch16_224", SMALL),
    ("vit_small_patch14_dinov2", SMALL),
    ("vit_base_patch16_siglip_224", SMALL),
    ("vit_relpos_small_patch16_224", SMALL),
    ("deit_tiny_patch16_224", SMALL),
    ("deit_tiny_distilled_patch16_224", SMALL),
    ("deit3_small_patch16_224", SMALL),
    (
        "pit_ti_224",
        {"img_size": 32, "patch_size": 8, "stride": 4, "base_dims": [8, 8, 8], "depth": [1, 1, 1], "heads": [2, 2, 2]},
    ),
    ("beit_base_patch16_224", SMALL),
    ("eva02_tiny_patch14_224", {**SMALL, "patch_size": 16}),
    ("cait_xxs24_224", {**SMALL}),
    ("swin_tiny_patch4_window7_224", {}),
    ("xcit_nano_12_p16_224", {**SMALL}),
    ("convit_tiny", {}),
    ("levit_128s", {}),
    ("mobilevit_xxs", {}),
]


def sharpened(model: nn.Module) -> nn.Module:
    """Attention that is far from uniform: query and key weights times 8, biases and sinks that are not zero."""
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if PROJECTIONS.search(name):
                parameter.mul_(8)
            elif name.endswith(("bias", "sinks", "relative_position_bias_table")):
                parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return model.eval()


def transformer(name: str, ending: str, small: Options) -> nn.Module:
    """A random small classifier of transformers."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**small, num_labels=5)
    return sharpened(getattr(transformers, f"{name}For{ending}Classification")(config))


def timm_model(name: str, small: Options) -> nn.Module:
    """A random timm model."""
    import timm

    torch.manual_seed(0)
    return sharpened(timm.create_model(name, pretrained=False, num_classes=5, **small))


def cases() -> dict[tuple[str, str, str], Callable[[], nn.Module]]:
    """Every model that is tried, by library, name and remark."""
    made: dict[tuple[str, str, str], Callable[[], nn.Module]] = {}
    for name, ending, remark, small in TRANSFORMERS:
        # mypy: mypy cannot infer a lambda with defaults
        made["transformers", name, remark] = lambda n=name, e=ending, s=small: transformer(n, e, s)  # type: ignore[misc]
    for name, small in TIMM:
        made["timm", name, ""] = lambda n=name, s=small: timm_model(n, s)  # type: ignore[misc]  # as above
    return made


def outcome(make: Callable[[], nn.Module]) -> str:
    """'' where a softmax can be put in, with the self-check passed; else the sentence that refuses the model."""
    from cgf.interface.installing import install, uninstall

    model = make()
    try:
        install(model, "cgf")
    except UserError as error:
        return str(error).partition(" cannot be taken as a host: ")[2] or str(error)
    assert uninstall(model) > 0
    return ""


def rounded(said: str) -> str:
    """A sentence without the size of a difference, which processors round in their own ways."""
    return re.sub(r"\b\d\.\de[+-]\d\d\b", "more than rounding", said)


def measured() -> dict[tuple[str, str, str], Json]:
    """What scripts/repo/host_commands.py wrote of each model, by library, name and remark."""
    if not MEASURED.is_file():
        return {}
    results = json.loads(MEASURED.read_text(encoding="utf-8"))["hosts"]
    return {(each["library"], each["name"], each["remark"]): each for each in results}


def row(case: tuple[str, str, str], make: Callable[[], nn.Module], tried: Json | None) -> str:
    """The line of the table for a model; tried: what the commands made of it."""
    library, name, remark = case
    refused = rounded(outcome(make))
    done = {key: "not tried" if tried is None else tried["commands"][key]["outcome"] for key in COMMANDS}
    said = [each.partition(": ")[2] for each in done.values()]
    why = "; ".join(dict.fromkeys(each for each in (refused, *said) if each))
    model = f"{name}{f' ({remark})' if remark else ''}"
    words = [library, model, "refused" if refused else "works", *(each.partition(": ")[0] for each in done.values())]
    return f"| {' | '.join([*words, *figures(tried or {}), why])} |"


def figures(tried: Json) -> list[str]:
    """Agreement, and levels planned and used, as the table has them."""
    if "agreement" not in tried:
        return [""] * 2
    return [f"{tried['agreement']:.2f} of {tried['samples']}", f"{tried['levels_planned']}, {tried['levels_used']}"]


def page() -> str:
    """docs/hosts.md as it should be."""
    tried = measured()
    table_rows = [row(case, make, tried.get(case)) for case, make in cases().items()]
    return "\n".join(
        [
            "# Hosts",
            "",
            "A host is a classifier whose attention softmax can be replaced. Structure decides, found and checked when",
            "the softmax is put in, never a list of names. An exact softmax put in must give the untouched model's",
            "numbers to 1e-5 of the largest. A later token must change nothing earlier in a causal model. A padding",
            "token must change nothing real. A model that fails is refused with the sentence that the table shows.",
            "",
            "The table is written by `python scripts/repo/hosts.py` from small random models. Their query and key",
            "weights are 8 times as large as initialised, their biases and sinks are not zero. 'Put in' says that a",
            "softmax can be put in and the checks pass.",
            "",
            "`python -m scripts.repo.host_commands` saves each of these models in a folder and runs the five commands",
            "on it, with a table of 60 texts or a folder of 60 images. Three training steps are made, and 4 test",
            "samples are evaluated with `he=sim`, which computes the same circuits without encryption. Agreement is",
            "the share of these samples with the same answer as in the clear. 'Levels' are those of the plan, and",
            "those that the evaluation used, one more where it pads rows. `results/hosts.json` has the figures.",
            "The table does not say that a model learns: for that, see [training](results/training.md).",
            "",
            "Rows of a causal model, and of one with a window, are masked: a plan for masked rows serves them.",
            "`he.scope=network` reads ViTs, BERTs and LLaMAs of known classes and refuses others by name; it is not",
            "one of the five commands.",
            "",
            "A window of an attention is read when the model is run, and its mask is compared with it. Rows of a model",
            "that looks ahead within a window count as masked in all its layers, which costs a level in short texts.",
            "A window of more than 509 tokens is compared on short texts alone.",
            "",
            f"| library | model | put in | {' | '.join(COMMANDS)} | agreement | levels | why not |",
            f"|{'---|' * 11}",
            *table_rows,
            "",
        ]
    )


def main() -> None:
    """Writes the page, or with --check ends with 1 where it is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where docs/hosts.md is stale")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # of transformers, about token ids beyond so small a vocabulary
    check, wanted = parser.parse_args().check, page()
    if check and (not PAGE.is_file() or PAGE.read_text() != wanted):
        sys.exit("docs/hosts.md is stale: python scripts/repo/hosts.py")
    PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
