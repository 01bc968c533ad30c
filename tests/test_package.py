"""The package as others install it: one wheel, nothing beside cgf in it, its commands without the repository."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the working tree's tracked files, built without fetching anything."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        if not name.startswith(("results/", "tests/")) and (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                (tree / name).symlink_to(os.readlink(ROOT / name))
            else:
                (tree / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    (path,) = out.glob("*.whl")
    return path


def test_a_wheel_holds_the_package_with_its_configs_and_adapters_and_nothing_beside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"cgf", "cgf_softmax"}
    tracked = subprocess.run(
        ["git", "ls-files", "configs", "models"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    expected = [f"cgf/{name}" for name in tracked.stdout.split() if name.endswith((".yaml", ".py"))]
    assert len(expected) > 100 and not set(expected) - set(names)
    metadata = next(zipfile.ZipFile(wheel).read(n).decode() for n in names if n.endswith("/METADATA"))
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert len(pinned) > 15 and all(f"Requires-Dist: {name}" in metadata for name in pinned)


def test_what_is_pinned_stands_in_the_requirements_with_hashes():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = about["project"]["optional-dependencies"]
    wanted = {
        "requirements.txt": about["project"]["dependencies"],
        "requirements-dev.txt": [*about["project"]["dependencies"], *extras["dev"], *extras["docs"]],
        "requirements-models.txt": about["dependency-groups"]["weights"],
    }
    found = {}
    for file, pins in wanted.items():
        text = (ROOT / file).read_text()
        with_hash = re.findall(r"^([\w.\[\]-]+==[^\s;]+).*\\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
        found[file] = {name.lower().replace("_", "-") for name in with_hash}
        assert len(with_hash) == len(re.findall("^[a-zA-Z]", text, re.MULTILINE)), (
            f"{file} has a package without a hash"
        )
        assert {pin.lower().replace("_", "-") for pin in pins} <= found[file], file
    own = found["requirements.txt"]
    assert own - {f for f in own if "colorama" in f} <= found["requirements-dev.txt"]  # one environment has both


def test_the_commands_run_without_the_repository(wheel, tmp_path):
    package = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(package)
    environment = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}

    def cgf(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "cgf.cli", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    where = subprocess.run(
        [sys.executable, "-c", "import cgf, cgf.models as m; print(cgf.__file__, m.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert where.stdout.split() == [str(package / "cgf/__init__.py"), str(package / "cgf/models/__init__.py")]
    small = ["train.max_steps=2", "train.batch_size=8", "task.limit={train: 16, val: 8, test: 8}"]
    trained = cgf("train", *small, "run=one")
    assert trained.returncode == 0, trained.stderr
    evaluated = cgf("eval-plain", "ckpt=outputs/one", "out=one.json")
    assert evaluated.returncode == 0 and (tmp_path / "one.json").is_file(), evaluated.stderr
    assert not (package / "outputs").exists()
    unknown = cgf("trian")
    assert unknown.returncode == 2 and "needs one of train, plan," in unknown.stderr
