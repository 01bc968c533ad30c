"""CGF-softmax under transformers' own Trainer, saved and loaded with its softmax: python examples/trainer.py"""

from __future__ import annotations

import tempfile

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import cgf


def run(hidden: int = 32, layers: int = 2, steps: int = 30) -> nn.Module:
    """Trains a small BERT with random weights; gives back what cgf.load reads from the folder that was saved."""
    ids = torch.randint(1, 40, (64, 12))
    samples = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[1] > 20)} for row in ids]
    sizes = {"vocab_size": 40, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(**sizes, intermediate_size=hidden, num_labels=2))
    cgf.install(model.eval(), "cgf")
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(folder, max_steps=steps, learning_rate=1e-3, use_cpu=True, report_to=[])
        trainer = Trainer(model, settings, train_dataset=samples)
        print(f"loss {trainer.train().training_loss:.3f} over {steps} steps")
        trainer.save_model(folder)
        again = cgf.load(folder).eval()
    with torch.no_grad():
        same = torch.equal(again(input_ids=ids).logits, model.eval()(input_ids=ids).logits)
    print(f"loaded again, the same logits: {same}")
    return again


if __name__ == "__main__":
    run()
