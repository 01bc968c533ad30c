"""A GPT-2 fine-tuned with exact softmax, and what CGF-softmax does to it: python examples/gpt2.py [--engine desilo]"""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2ForSequenceClassification

import cgf


def data(count: int, length: int) -> list[dict[str, torch.Tensor]]:
    """Random token ids from 2 to 39, padded by 0 on the right; the class says whether token 1 is the second."""
    labels = torch.arange(count) % 2
    ids = torch.randint(2, 40, (count, length))
    ids[:, 1] = torch.where(labels == 1, 1, ids[:, 1])
    kept = torch.arange(length) < torch.randint(length // 2, length + 1, (count, 1))
    samples = zip(ids * kept, kept.long(), labels, strict=True)
    return [{"input_ids": tokens, "attention_mask": mask, "labels": label} for tokens, mask, label in samples]


def run(
    width: int = 32, layers: int = 2, length: int = 16, epochs: int = 10, samples: int = 20, engine: str = "sim"
) -> cgf.ModelEvaluation:
    """A small model with random weights, since nothing is downloaded here; prints report, plan and evaluation."""
    config = GPT2Config(vocab_size=40, n_embd=width, n_layer=layers, n_head=2, pad_token_id=0)
    model = GPT2ForSequenceClassification(config)
    train = DataLoader(data(128, length), batch_size=16, shuffle=True)
    test = DataLoader(data(samples, length), batch_size=samples)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in train:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
    cgf.install(model.eval(), "cgf")  # no training after it
    print(cgf.friendly_report(model, train))  # by layer and head, before anything is encrypted
    plan = cgf.make_plan(model, train)
    print(plan)
    result = cgf.evaluate_model(model, test, plan, engine=engine, samples=samples)
    print(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sim", help="desilo encrypts; sim computes the circuit in the clear")
    run(engine=parser.parse_args().engine)
