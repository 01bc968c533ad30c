"""Repositories of a hub in a cache folder as its own client writes them; no question reaches a network."""

import pytest

OLD, NEW = "a" * 40, "b" * 40  # commits; main is the newer one, v1 the older


@pytest.fixture(name="cached")
def cached_fixture(tmp_path, monkeypatch):
    """write(hub id, make): both commits of it, made by make(folder, 0) and make(folder, 1); returns their folder."""

    def unreachable(self, *_, **__):
        raise ConnectionError("no network here")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def write(where, make):
        repository = tmp_path / f"models--{where.replace('/', '--')}"
        for seed, commit in enumerate((OLD, NEW)):
            (repository / "snapshots" / commit).mkdir(parents=True)
            make(repository / "snapshots" / commit, seed)
        (repository / "refs").mkdir()
        for name, commit in (("main", NEW), ("v1", OLD)):
            (repository / "refs" / name).write_text(commit)
        return repository / "snapshots"

    return write
