"""A LLaMA with grouped queries, distilled into CGF-softmax from its exact self: python examples/llama.py"""

from __future__ import annotations

import argparse
import copy

import torch
from torch.nn.functional import kl_div, log_softmax
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForSequenceClassification

import cgf


def data(count: int, length: int) -> list[dict[str, torch.Tensor]]:
    """Random token ids from 2 to 39; the class says whether token 1 is the second."""
    labels = torch.arange(count) % 2
    ids = torch.randint(2, 40, (count, length))
    ids[:, 1] = torch.where(labels == 1, 1, ids[:, 1])
    mask = torch.ones(length, dtype=torch.long)
    return [{"input_ids": row, "attention_mask": mask, "labels": label} for row, label in zip(ids, labels, strict=True)]


def run(
    width: int = 32, layers: int = 2, length: int = 16, epochs: int = 8, samples: int = 20, engine: str = "sim"
) -> cgf.ModelEvaluation:
    """A small model with random weights, since nothing is downloaded here; prints the plan and the evaluation."""
    sizes = {"vocab_size": 40, "hidden_size": width, "intermediate_size": width, "num_hidden_layers": layers}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0)
    train = DataLoader(data(128, length), batch_size=16, shuffle=True)
    test = DataLoader(data(samples, length), batch_size=samples)
    teacher = LlamaForSequenceClassification(config)
    optimizer = torch.optim.AdamW(teacher.train().parameters(), lr=3e-3)
    for batch in [batch for _ in range(epochs) for batch in train]:
        optimizer.zero_grad()
        teacher(**batch).loss.backward()
        optimizer.step()
    student = copy.deepcopy(teacher.eval())  # a model without install stays as it is
    cgf.install(student.eval(), "cgf")
    optimizer = torch.optim.AdamW(student.train().parameters(), lr=1e-3)
    for batch in [batch for _ in range(epochs) for batch in train]:
        with torch.no_grad():
            wanted = log_softmax(teacher(**batch).logits, -1)
        optimizer.zero_grad()
        kl_div(log_softmax(student(**batch).logits, -1), wanted, log_target=True, reduction="batchmean").backward()
        optimizer.step()
    plan = cgf.make_plan(student.eval(), train)
    print(plan)
    result = cgf.evaluate_model(student, test, plan, engine=engine, samples=samples)
    print(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sim", help="desilo encrypts; sim computes the circuit in the clear")
    run(engine=parser.parse_args().engine)
