"""Networks that take a second under CKKS, and their bundles."""

import numpy as np

from cgf.approx.fit import chain
from cgf.bundle.limit import Limit
from cgf.bundle.sides import write_client, write_server
from cgf.network.inputs import Patches, Table
from cgf.network.layers import Linear, Network, Pool, Residual, SelfAttention, Square
from cgf.network.program import program_of
from cgf.network.twin import twin

PATCHES = Patches(1, 4, 4, 2)  # 4 tokens of 4 pixels
IMAGE = {"image": {"size": [1, 4, 4], "mean": [0.5], "std": [0.5], "interpolation": "bicubic", "crop_pct": 1.0}}
CLASSES = ("one", "two", "three")
WORDS = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
"pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "?": 4}, "unk_token": "?"}}"""


def linear(rng, out, size):
    return Linear(rng.normal(0, size**-0.5, (out, size)), rng.normal(0, 0.3, out))


def squares(seed=0, features=4, tokens=(4, 4)):
    """Maps and a square, pooled: 3 levels, 8,192 slots."""
    rng = np.random.default_rng(seed)
    square = Square(np.stack([rng.normal(0, 0.2, 3), rng.normal(0, 0.5, 3), rng.uniform(0.1, 0.5, 3)]))
    layers = (linear(rng, 3, features), square, Pool("mean"), linear(rng, 3, 3))
    return Network("squares", features, tokens, layers, CLASSES)


def attentive(seed=1, k=1, features=4):
    """An attention of two heads: 5 + k levels; with k = 2 as many as 8,192 slots have."""
    rng = np.random.default_rng(seed)
    parts = [linear(rng, 4, features) for _ in range(3)]
    attend = SelfAttention(*parts, 2, 0.5, chain(-8.0, 1.0, k))
    layers = (Residual((attend, linear(rng, features, 4))), Pool("mean"), linear(rng, 3, features))
    return Network("attentive", features, (4, 4), layers, CLASSES)


def one_block(seed=3):
    """An attention and a square, each beside its residual: 11 levels for a sample alone, 2 fewer in a set."""
    rng = np.random.default_rng(seed)
    attend = SelfAttention(*(linear(rng, 4, 4) for _ in range(3)), 2, 0.5, chain(-8.0, 1.0, 2))
    square = Square(np.stack([rng.normal(0, 0.2, 8), rng.normal(0, 0.5, 8), rng.uniform(0.1, 0.5, 8)]))
    inner = (linear(rng, 8, 4), square, linear(rng, 4, 8))
    layers = (Residual((attend, linear(rng, 4, 4))), Residual(inner), Pool("mean"), linear(rng, 3, 4))
    return Network("one block", 4, (4, 4), layers, CLASSES)


def images(count, seed=5):
    return np.random.default_rng(seed).uniform(0, 1, (count, 1, 4, 4)).astype(np.float32)


def prepared(pixels):
    return PATCHES.prepared((pixels - 0.5) / 0.5)


def clear_logits(network, features):
    return twin(program_of(network, features.shape[1]), features)


def write_bundles(folder, network=None, alone=False):
    """folder/client and folder/server of a network of images; the agreement."""
    network = network or squares()
    limit = Limit.of(clear_logits(network, prepared(images(64, seed=6))))
    agreement = write_server(folder / "server", network, [4], alone)
    write_client(folder / "client", agreement, PATCHES, {**IMAGE, "crop": False}, limit)
    return agreement


def write_text_bundles(folder, lengths=(2, 4)):
    """The same of a network of words."""
    rng = np.random.default_rng(7)
    norm = rng.uniform(0.5, 1.5, 4), rng.normal(0, 0.3, 4)
    network, table = squares(tokens=(2, 8)), Table(rng.normal(0, 1, (5, 4)), rng.normal(0, 0.3, (8, 4)), norm)
    limit = Limit.of(clear_logits(network, table.prepared(np.random.default_rng(8).integers(0, 5, (64, 4)))))
    agreement = write_server(folder / "server", network, lengths)
    write_client(folder / "client", agreement, table, {"text": 8}, limit, WORDS)
    return network, table
