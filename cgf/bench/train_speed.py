"""Time and memory of training steps with one softmax or another, on a LLaMA with random weights."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForSequenceClassification

from cgf.bench.peak_memory import added_mib
from cgf.models.install import install_copies
from cgf.softmax.base import Softmax
from cgf.types import Json


def make(hidden: int, layers: int, heads: int, tokens: int) -> nn.Module:
    """A LLaMA classifier of random weights for rows of up to ``tokens``."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=tokens,
        pad_token_id=0,
    )
    config.num_labels = 16
    return LlamaForSequenceClassification(config)


def steps(softmax: Softmax | None, shape: dict[str, int], batch: int, count: int, precision: str = "no") -> Json:
    """Seconds of each of ``count`` training steps (one more warms up) and the memory that they add at their peak.

    softmax None: the host's own fused attention. shape: hidden, layers, heads, tokens. Memory is how
    far the peak rises above what was held before the first of them, the weights among it (``cgf.bench.peak_memory``).
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make(**shape).to(device).train()
    if softmax is not None:
        install_copies(model, softmax)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(1, 1000, (batch, shape["tokens"]), device=device)
    labels = torch.randint(0, 16, (batch,), device=device)
    mask, seconds, added = torch.ones_like(ids), [], added_mib(device)
    for _ in range(count + 1):
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds[1:],
        "peak_mib": added(),
        "loss": float(loss.detach()),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
    }
