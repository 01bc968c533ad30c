"""eval_he.py killed: the real process, at random moments, and what the next run makes of its lines."""

import json
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
from digits_checkpoint import started
from test_evaluate_he import call, clear_logits, logits, stable

from cgf.results import read_lines


def test_killed_at_any_moment_it_ends_in_the_same_file(checkpoint):
    """The real process, five times SIGKILL at random moments, with workers; the last run's file is that of one run."""
    seed = random.SystemRandom().randrange(10**6) if os.environ.get("HYPOTHESIS_PROFILE") == "fresh" else 0
    print(f"moments by seed {seed}")
    moments, out = random.Random(seed), checkpoint / "eval" / "killed.json"
    arguments = [f"ckpt={checkpoint}", "he=sim", "he.samples=60", "he.batch=1"]
    lines, kept = out.with_suffix(".jsonl"), []
    for attempt in range(5):
        workers = 2 if attempt in (0, 3) else 1  # how the work is shared is no part of the result
        process = started("eval_he", *arguments, f"he.workers={workers}", f"out={out}", cwd=checkpoint)
        deadline, done, wanted = time.monotonic() + 120, 0, (kept[-1] if kept else 0) + moments.randint(1, 6)
        while done < wanted and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
            done = lines.read_bytes().count(b'"batch"') if lines.exists() else 0
        time.sleep(moments.uniform(0, 0.05))
        assert process.poll() is None, process.stderr
        children = " ".join(p.read_text() for p in Path(f"/proc/{process.pid}/task").glob("*/children")).split()
        process.kill()
        process.wait()
        assert len(children) >= (workers if workers > 1 else 0) and not out.exists()
        while any(Path(f"/proc/{child}").exists() for child in children):  # workers end with their parent
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kept.append(lines.read_bytes().count(b'"batch"'))
        if attempt == 2:
            with lines.open("ab") as file:
                file.write(b'{"index": 3, "lo')  # what a kill inside a write leaves
    assert 1 <= kept[0] <= kept[-1] < 60
    done = call("eval_he", *arguments, f"out={out}")
    assert done.returncode == 0, done.stderr
    assert " samples are done already" in done.stdout
    whole = call("eval_he", *arguments, "he.workers=2", f"out={checkpoint}/eval/whole.json")
    assert whole.returncode == 0, whole.stderr
    results = [json.loads((checkpoint / "eval" / f"{name}.json").read_text()) for name in ("killed", "whole")]
    assert stable(results[0]) == stable(results[1]) and results[0]["batches"] == 60
    found = [logits(read_lines(checkpoint / "eval" / f"{name}.jsonl")) for name in ("killed", "whole")]
    assert found[0] == found[1] and len(found[0]) == 60


def test_killed_amid_ciphertexts_it_goes_on(checkpoint):
    """The real process under real encryption, killed within a sample's circuits and not only between two of them."""
    seed = random.SystemRandom().randrange(10**6) if os.environ.get("HYPOTHESIS_PROFILE") == "fresh" else 0
    print(f"moment by seed {seed}")
    moments, out = random.Random(seed), checkpoint / "eval" / "ciphertexts.json"
    lines, wanted = out.with_suffix(".jsonl"), moments.randint(1, 3)
    arguments = [f"ckpt={checkpoint}", "he=desilo", "he.samples=5", "he.batch=1", "he.owner.mode=cpu"]
    process = started("eval_he", *arguments, f"out={out}", cwd=checkpoint)
    deadline, done = time.monotonic() + 120, 0
    while done < wanted and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
        done = lines.read_bytes().count(b'"batch"') if lines.exists() else 0
    time.sleep(moments.uniform(0.05, 0.95) * read_lines(lines)[1]["seconds"])
    assert process.poll() is None and done >= wanted
    process.kill()
    process.wait()
    kept = logits(read_lines(lines))
    assert wanted <= len(kept) < 5 and not out.exists()
    again = call("eval_he", *arguments, f"out={out}")
    assert again.returncode == 0 and f"{len(kept)} samples are done already" in again.stdout, again.stderr
    result, found = json.loads(out.read_text()), logits(read_lines(lines))
    assert {i: found[i] for i in kept} == kept and len(found) == result["samples"] == result["batches"] == 5
    expected, labels = clear_logits(checkpoint, sorted(found))
    np.testing.assert_allclose([found[i] for i in sorted(found)], expected.numpy(), atol=1e-2)
    assert result["accuracy"] == pytest.approx((expected.argmax(-1) == labels).double().mean().item())
    assert result["agreement"] == 1.0 and result["entries"] == 5 * 16 * 4 * 16 * 4
