"""Folders of images as cameras and file managers leave them: hidden files, turned photographs, thin lines."""

import os
import re
import zipfile

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from cgf.data.image_files import Archive, EncodedImages, Folder
from cgf.errors import UserError

TURN = Image.Exif()
TURN[0x112] = 6  # a quarter turn


@pytest.fixture
def root(tmp_path):
    draw = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for name in "ab":
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(2):
                pixels = draw.integers(0, 256, (8, 8), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{i}.png")
    return tmp_path


def test_hidden_folders_are_no_classes_and_hidden_files_no_images(make, root):
    whole = make("image_folder", root=str(root))
    hashes = whole.kept()["sha256"]
    (root / "train" / "a" / "._0.png").write_bytes(b"\0\5\x16\7")
    (root / "train" / ".ipynb_checkpoints").mkdir()
    (root / "train" / ".ipynb_checkpoints" / "1.png").write_bytes((root / "train" / "a" / "1.png").read_bytes())
    task = make("image_folder", root=str(root))
    assert task.class_names == ["a", "b"] and task.kept()["sha256"] == hashes
    (note,) = task.notes()
    assert note.startswith("1 files of train/ are not read, train/.ipynb_checkpoints/1.png for one")
    with zipfile.ZipFile(root / "all.zip", "w") as archive:
        for file in ("train/a/0.png", "train/a/._0.png", "train/.ipynb_checkpoints/1.png"):
            archive.write(root / file, file)
    assert Archive(root / "all.zip").names("train") == ["train/a/0.png"]


def test_photographs_that_are_to_be_turned_are_told(make, root):
    assert make("image_folder", root=str(root)).notes() == []
    Image.new("L", (8, 4)).save(root / "train" / "b" / "2.jpg", exif=TURN)
    Image.new("L", (8, 4)).save(root / "train" / "b" / "3.jpg")
    task = make("image_folder", root=str(root))
    (note,) = task.notes()
    assert note.startswith(
        "1 images of train/ are to be turned by their EXIF data, train/b/2.jpg for one: they are read"
    )
    images, own = task.read("train")
    assert images.images[images.keys.index("train/b/2.jpg")].size == (8, 4) and len(own) == 6


def test_images_that_are_drawn_by_transparency_are_told(make, root):
    """Read without it, a black circle on nothing and a black square on nothing are both black."""
    clear = Image.new("RGBA", (8, 8))
    clear.putalpha(Image.linear_gradient("L").resize((8, 8)))
    clear.save(root / "train" / "a" / "7.png")
    indexed = Image.new("P", (8, 8))
    indexed.save(root / "train" / "a" / "8.png", transparency=0)
    Image.new("RGB", (8, 8)).save(root / "train" / "a" / "9.png")
    (note,) = make("image_folder", root=str(root)).notes()
    assert note.startswith("2 images of train/ say how transparent pixels are, train/a/7.png for one: that is left out")


def test_a_set_of_the_hub_is_read_as_its_files_are(make, tmp_path):
    """`datasets` turns images by their EXIF data: a client, which reads files as they are, encrypted other pixels."""
    for name in "ab":
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(4):
            image = Image.effect_noise((8, 4), 40 + i)
            image.save(tmp_path / "train" / name / f"{i}.png", exif=TURN)
    folder = make("image_folder", root=str(tmp_path))
    files, _ = folder.read("train")
    for as_stored, size in ((True, (8, 4)), (None, (4, 8))):
        task = make("hub", name=str(tmp_path), as_stored=as_stored)
        assert task.has_images and folder.has_images and task.kept()["as_stored"] is as_stored
        images = task._task.read("train")[0].images
        assert {images[i].size for i in range(len(images))} == {size}
        alike = sorted(images[i].tobytes() for i in range(8)) == sorted(files.images[i].tobytes() for i in range(8))
        assert alike is bool(as_stored)
    with pytest.raises(UserError, match=r"task\.as_stored must be true, false or null, and 1 was given"):
        make("hub", name=str(tmp_path), as_stored=1)


@pytest.mark.parametrize(
    ("name", "write", "says"),
    [
        (
            "thin.png",
            lambda path: Image.new("L", (30000, 1)).save(path),
            "may be 200 times as long as wide, and has 30000",
        ),
        (
            "empty.png",
            lambda path: path.touch(),
            "needs to be an image, and reading it failed: it is of no format that",
        ),
    ],
)
def test_an_image_that_is_none_is_refused_in_words_alone(root, name, write, says):
    write(root / "train" / "a" / name)
    with pytest.raises(UserError, match=re.escape(f"train/a/{name} {says}")) as refused:
        EncodedImages(Folder(root), [f"train/a/{name}"])[0]
    assert "0x" not in str(refused.value)


def test_a_program_in_the_place_of_pixels_is_not_run(root, monkeypatch):
    """Pillow would hand it to an interpreter, whatever the file is called."""
    asked = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **more: asked.append(given))
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 2 2\n%%EndComments\n(this is a program) print\n"
    (root / "train" / "a" / "0.png").write_bytes(content)
    assert Image.open(root / "train" / "a" / "0.png").format == "EPS"
    with pytest.raises(
        UserError, match=r"train/a/0\.png needs to be an image, .* it is of no format that is read \(BMP, "
    ):
        EncodedImages(Folder(root), ["train/a/0.png"])[0]
    assert not asked


def test_what_is_no_regular_file_is_refused(root):
    os.mkfifo(root / "train" / "a" / "9.png")
    with pytest.raises(UserError, match="must be a regular file to be read, and is none"):
        EncodedImages(Folder(root), ["train/a/9.png"])[0]
