"""The workload of a whole network: bundles of a small network of random weights, images, and logits in the clear.

Its stages are the commands of cgf.client and cgf.server. A trained network comes by its own bundles instead, made by
python -m cgf.server bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgf.approx.fit import chain
from cgf.bundle.limit import Limit
from cgf.bundle.sides import ClientBundle, ServerBundle, write_client, write_server
from cgf.client.samples import batches_of
from cgf.errors import UserError
from cgf.network.inputs import Patches
from cgf.network.layers import Linear, Network, Pool, Residual, SelfAttention, Square
from cgf.network.program import program_of
from cgf.network.twin import twin
from cgf.results import read_json
from cgf.suite.workloads import Verdict
from cgf.types import Json

# side of an image, side of a patch, width, heads, squarings of the chain, images
NETWORKS = {"toy": (4, 2, 4, 2, 1, 8), "small": (8, 4, 16, 2, 2, 64), "medium": (8, 2, 16, 4, 2, 64)}
CLASSES = 10
LOGITS_BOUND = 1e-4  # largest error of a logit, of the largest logit


@dataclass(frozen=True)
class NetworkSize:
    """A network's size and what its images are, for a name of ``NETWORKS``."""

    side: int
    patch: int
    width: int
    heads: int
    squarings: int
    images: int

    @classmethod
    def of(cls, size: str) -> NetworkSize:
        """UserError for a size that there is not."""
        if size not in NETWORKS:
            raise UserError(
                f"a network of random weights has size {', '.join(NETWORKS)}, and '{size}' was given: a larger one is "
                "given by its bundles"
            )
        return cls(*NETWORKS[size])

    @property
    def patches(self) -> Patches:
        """How an image of this size is cut into tokens; one channel."""
        return Patches(1, self.side, self.side, self.patch)

    def network(self, seed: int) -> Network:
        """A map of patches, an attention with its residual, squares, the mean over tokens and a map to classes."""
        rng, patches = np.random.default_rng(seed), self.patches
        query, key, value = (_linear(rng, self.width, self.width) for _ in range(3))
        scale, exponential = (self.width // self.heads) ** -0.5, chain(-8.0, 1.0, self.squarings)
        attend = SelfAttention(query, key, value, self.heads, scale, exponential)
        square = Square(np.stack([np.full(self.width, c) for c in (0.1, 0.5, 0.2)]))
        layers = (
            _linear(rng, self.width, patches.features),
            Residual((attend, _linear(rng, self.width, self.width))),
            square,
            Pool("mean"),
            _linear(rng, CLASSES, self.width),
        )
        classes = tuple(f"class {i}" for i in range(CLASSES))
        return Network("random", patches.features, (patches.tokens, patches.tokens), layers, classes)

    def pixels(self, seed: int, count: int) -> np.ndarray:
        """Images (count, 1, side, side) in [0, 1]."""
        return np.random.default_rng(seed).uniform(0, 1, (count, 1, self.side, self.side)).astype(np.float32)

    def write_bundles(self, folder: Path, seed: int) -> None:
        """folder/client and folder/server, as python -m cgf.server bundle makes them of a checkpoint."""
        network, patches = self.network(seed), self.patches
        image = {"size": [1, self.side, self.side], "mean": [0.5], "std": [0.5]}
        prepare: Json = {"image": {**image, "interpolation": "bicubic", "crop_pct": 1.0}, "crop": False}
        known = patches.prepared((self.pixels(seed + 1, 64) - 0.5) / 0.5)
        limit = Limit.of(twin(program_of(network, patches.tokens), known))
        agreement = write_server(folder / "server", network, [patches.tokens])
        write_client(folder / "client", agreement, patches, prepare, limit)


def _linear(rng: np.random.Generator, out: int, size: int) -> Linear:
    return Linear(rng.normal(0, size**-0.5, (out, size)), rng.normal(0, 0.1, out))


def logits_in_the_clear(client: Path, server: Path, images: Path) -> np.ndarray:
    """Logits (images, classes) of the server's network in float64, of images as the client prepares them."""
    bundle, network = ClientBundle.read(client), ServerBundle.read(server).network
    batches = list(batches_of(bundle, images))
    logits = np.concatenate([twin(program_of(network, b.features.shape[1]), b.features) for b in batches])
    indices = np.concatenate([b.indices for b in batches])
    return np.asarray(logits[np.argsort(indices)])


def network_verdict(told: Path, wanted: np.ndarray) -> Verdict:
    """Of decrypted logits: their largest error; infinite where an answer differs or a sample has none."""
    answers = read_json(told)["rows"]
    got = [answer["logits"] for answer in answers]
    what = "largest error of a logit, of the largest logit, all answers alike"
    if len(got) != len(wanted) or any(logits is None for logits in got):
        return Verdict(float("inf"), LOGITS_BOUND, what)
    decrypted = np.array(got)
    alike = bool((decrypted.argmax(1) == wanted.argmax(1)).all())
    error = float(np.abs(decrypted - wanted).max() / np.abs(wanted).max())
    return Verdict(error if alike else float("inf"), LOGITS_BOUND, what)
