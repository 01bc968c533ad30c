"""A BERT with CGF-softmax in a loop of one's own, then under CKKS: python examples/bert.py [--engine desilo]"""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

import cgf


def data(count: int, length: int) -> list[dict[str, torch.Tensor]]:
    """Random token ids below 40; half of the texts hold token 1, and that is their class."""
    ids = torch.randint(2, 40, (count, length))
    labels = torch.arange(count) % 2
    ids[:, 1] = torch.where(labels == 1, 1, ids[:, 1])
    return [
        {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": label}
        for row, label in zip(ids, labels, strict=True)
    ]


def run(
    hidden: int = 32, layers: int = 2, length: int = 16, epochs: int = 10, samples: int = 20, engine: str = "sim"
) -> cgf.ModelEvaluation:
    """A small model with random weights, since nothing is downloaded here; prints the plan and the evaluation."""
    sizes = {"vocab_size": 40, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(**sizes, intermediate_size=hidden, num_labels=2))
    cgf.install(model.eval(), "cgf")
    train = DataLoader(data(128, length), batch_size=16, shuffle=True)
    test = DataLoader(data(samples, length), batch_size=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for batch in train:
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    plan = cgf.make_plan(model, train)  # chosen on training data
    print(plan)
    result = cgf.evaluate_model(model, test, plan, engine=engine, samples=samples)
    print(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sim", help="desilo encrypts; sim computes the circuit in the clear")
    run(engine=parser.parse_args().engine)
