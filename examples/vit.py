"""A timm ViT on scikit-learn's digits with CGF-softmax, then under CKKS: python examples/vit.py [--engine desilo]"""

from __future__ import annotations

import argparse

import timm
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import cgf


def run(
    width: int = 32, depth: int = 2, epochs: int = 4, samples: int = 20, engine: str = "sim"
) -> cgf.ModelEvaluation:
    """Trained from random weights, never with an exact softmax; prints the plan and the evaluation."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
    every = TensorDataset(images, torch.tensor(digits.target))
    train = DataLoader(torch.utils.data.Subset(every, range(1400)), batch_size=32, shuffle=True)
    test = DataLoader(torch.utils.data.Subset(every, range(1400, len(every))), batch_size=32)
    sizes = {"img_size": 8, "patch_size": 2, "in_chans": 1, "embed_dim": width, "depth": depth, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=10, class_token=False, global_pool="avg", **sizes)
    cgf.install(model.eval(), "cgf")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(epochs):
        for pixels, labels in train:
            loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    plan = cgf.make_plan(model, train)
    print(plan)
    result = cgf.evaluate_model(model, test, plan, engine=engine, samples=samples)
    print(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sim", help="desilo encrypts; sim computes the circuit in the clear")
    run(engine=parser.parse_args().engine)
