"""A model with a softmax put in, trained by what people use: accelerate's loop, and Lightning where it is installed."""

import pytest
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

import cgf

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}


def model():
    torch.manual_seed(0)
    made = BertForSequenceClassification(BertConfig(**SIZES, intermediate_size=16, num_labels=3))
    with torch.no_grad():  # rows of weights far from uniform, where all softmaxes would be nearly equal
        for name, parameter in made.named_parameters():
            if ".query." in name or ".key." in name:
                parameter.mul_(20)
    cgf.install(made.eval(), "cgf")
    return made


def samples(count=12):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 40, (count, 7), generator=draw)
    return [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0]) % 3} for row in ids]


def compared(trained, folder, batch):
    """Saved and loaded again, it gives the same logits, and others than with an exact softmax."""
    trained.eval()
    trained.save_pretrained(folder)
    with torch.no_grad():
        before, again = trained(**batch).logits, cgf.load(folder).eval()(**batch).logits
        cgf.uninstall(trained)
        exact = trained(**batch).logits
    assert torch.equal(again, before) and not torch.allclose(exact, before, atol=1e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_accelerate_trains_it_as_a_plain_loop_does(accumulate, tmp_path):
    """The same steps with and without accelerate give the same weights, and the softmax goes along."""
    weights = []
    for accelerator in (None, Accelerator(cpu=True, gradient_accumulation_steps=accumulate)):
        student, batches = model(), DataLoader(samples(), batch_size=4)
        optimizer, prepared = torch.optim.SGD(student.parameters(), lr=0.5), student
        if accelerator is not None:
            prepared, optimizer, batches = accelerator.prepare(student, optimizer, batches)
        for step, batch in enumerate(batches, 1):
            prepared.eval()  # without dropout, whose draws would differ
            if accelerator is None:
                (prepared(**batch).loss / accumulate).backward()
                if step % accumulate == 0 or step == len(batches):
                    optimizer.step()
                    optimizer.zero_grad()
                continue
            with accelerator.accumulate(prepared):
                accelerator.backward(prepared(**batch).loss)
                optimizer.step()
                optimizer.zero_grad()
        weights.append([p.detach().clone() for p in student.parameters()])
    plain, accelerated = weights
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(plain, accelerated, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(accelerated, model().parameters(), strict=True))
    unwrapped = accelerator.unwrap_model(prepared)
    assert unwrapped is student
    compared(unwrapped, tmp_path / "out", next(iter(DataLoader(samples(), batch_size=4))))


def test_lightning_trains_it(tmp_path):
    lightning = pytest.importorskip("lightning", reason="Lightning is no dependency: pip install lightning")

    class Student(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def training_step(self, batch, _):
            return self.inner(**batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.inner.parameters(), lr=1e-2)

    student, batches = Student(), DataLoader(samples(), batch_size=4)
    before = [p.detach().clone() for p in student.parameters()]
    trainer = lightning.Trainer(
        max_steps=3, accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=tmp_path / "root"
    )
    trainer.fit(student, batches)
    assert any(not torch.equal(a, b) for a, b in zip(before, student.parameters(), strict=True))
    trainer.save_checkpoint(tmp_path / "student.ckpt")
    again = Student()
    again.load_state_dict(torch.load(tmp_path / "student.ckpt", weights_only=True)["state_dict"])
    batch = next(iter(batches))
    with torch.no_grad():
        assert torch.equal(again.eval().inner(**batch).logits, student.eval().inner(**batch).logits)
    compared(student.inner, tmp_path / "out", batch)
