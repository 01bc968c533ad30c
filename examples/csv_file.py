"""Texts of a CSV file through a BERT with CGF-softmax: python examples/csv_file.py [FILE.csv TEXT LABEL]"""

from __future__ import annotations

import csv
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, DataCollatorWithPadding, PreTrainedTokenizerFast

import cgf

TOY = [{"text": f"{a} {b} film", "label": b} for a in ("a", "the", "one", "this") for b in ("good", "bad")] * 12


def run(
    records: list[dict[str, str]], text: str, label: str, hidden: int = 32, epochs: int = 5, samples: int = 12
) -> cgf.ModelEvaluation:
    """A small model with random weights and a tokenizer of the file's own words; the last records are the test."""
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(
        (record[text] for record in records), trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]"])
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    classes = sorted({record[label] for record in records})
    items = [{**tokenizer(record[text]), "labels": classes.index(record[label])} for record in records]
    for item in items:
        item.pop("token_type_ids", None)
    collate = DataCollatorWithPadding(tokenizer)
    train = DataLoader(items[:-samples], batch_size=16, shuffle=True, collate_fn=collate)
    sizes = {"hidden_size": hidden, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": hidden}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=len(classes), **sizes)
    model = BertForSequenceClassification(config)
    cgf.install(model.eval(), "cgf")
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=3e-3)
    for batch in [batch for _ in range(epochs) for batch in train]:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    plan = cgf.make_plan(model.eval(), train)
    test = DataLoader(items[-samples:], batch_size=samples, collate_fn=collate)
    result = cgf.evaluate_model(model, test, plan, samples=samples)  # engine="desilo" encrypts
    print(plan, result, sep="\n")
    return result


if __name__ == "__main__":
    if len(sys.argv) == 4:
        with open(sys.argv[1], newline="", encoding="utf-8") as file:
            run(list(csv.DictReader(file)), sys.argv[2], sys.argv[3])
    else:
        run(TOY, "text", "label")
