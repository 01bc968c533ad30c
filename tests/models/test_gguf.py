"""Weights of a GGUF file: a checkpoint that was trained from them is read again as any other."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cgf.checkpoint import read, save
from cgf.models import llama
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.results import run_info
from cgf.softmax.exact import Exact

gguf = pytest.importorskip("gguf", reason="of requirements-models.txt: reads and writes GGUF")
WIDTH, HEADS, BLOCKS, INNER = 32, 2, 2, 64
WORDS = [chr(code) for code in range(33, 127)] + ["ab", "Ġ", "<|endoftext|>"]


def written(folder: Path) -> str:
    """A LLaMA of two blocks with a byte-level tokenizer, quantized in blocks of 32; the file's name."""
    rng, name = np.random.default_rng(0), "small.gguf"
    writer = gguf.GGUFWriter(folder / name, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(WORDS)
    writer.add_token_types([1] * (len(WORDS) - 1) + [3])
    writer.add_token_merges(["a b"])
    for which in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id, writer.add_unk_token_id):
        which(len(WORDS) - 1)
    kind = gguf.GGMLQuantizationType.Q8_0
    shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (16, WIDTH), "attn_v": (16, WIDTH), "attn_output": (WIDTH, WIDTH)}
    shapes |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    tensors = {"token_embd.weight": (len(WORDS), WIDTH)}
    tensors |= {f"blk.{i}.{part}.weight": shape for i in range(BLOCKS) for part, shape in shapes.items()}
    for key, shape in tensors.items():
        values = rng.normal(size=shape).astype(np.float32) / 4
        writer.add_tensor(key, gguf.quants.quantize(values, kind), raw_dtype=kind)
    norms = ["output_norm", *(f"blk.{i}.{part}_norm" for i in range(BLOCKS) for part in ("attn", "ffn"))]
    for key in norms:
        writer.add_tensor(f"{key}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return name


def test_a_checkpoint_of_gguf_weights_is_read_again(tmp_path: Path) -> None:
    torch.manual_seed(0)
    host = llama.load("small", 3, path=str(tmp_path), gguf_file=written(tmp_path))
    assert not hasattr(host.model.config, "quantization_config")
    assert {parameter.dtype for parameter in host.model.parameters()} == {torch.float32}
    softmaxes = install_copies(host.model, Exact())
    run = {**run_info({}), **host.describe(), "task": "none"}
    kept = save(tmp_path / "run" / "ckpt-1", host.state(), softmaxes, run, host.write_surroundings)
    again = from_checkpoint(read(kept))[0]
    tokenizer = host.inputs.tokenizer
    assert tokenizer is not None
    batch = dict(tokenizer(["ab cd", "x"], padding=True, return_tensors="pt"))
    host.model.eval()
    again.model.eval()
    with torch.no_grad():
        torch.testing.assert_close(host.logits(batch), again.logits(batch), rtol=0, atol=0)
