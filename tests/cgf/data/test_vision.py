import zipfile
from collections import Counter

import pytest
import torch
from torch.utils.data import DataLoader

from cgf.data.task import ImageInput, Inputs
from cgf.data.vision import DigitsTask, ImageFolderTask
from cgf.errors import UserError


@pytest.fixture(scope="module")
def folder(data_root, tmp_path_factory):
    """An ImageFolder of three classes, out of the CIFAR archive: 30 train and 6 val images each."""
    root = tmp_path_factory.mktemp("root")
    with zipfile.ZipFile(data_root / "cifar10" / "cifar10_subset.zip") as archive:
        names = archive.namelist()
        for source, target, count in (("train", "train", 30), ("test", "val", 6)):
            for name in ("cat", "dog", "ship"):
                place = root / "imagenet1k" / target / name
                place.mkdir(parents=True)
                for member in sorted(n for n in names if n.startswith(f"{source}/{name}/"))[:count]:
                    (place / member.split("/")[-1].replace(".jpg", ".JPEG")).write_bytes(archive.read(member))
    return root


def pixels(data):
    return torch.stack([data[i]["pixel_values"] for i in range(len(data))])


def test_digits_split(make, grey):
    task = make("digits")
    parts = task._parts
    assert {split: len(own) for split, own in parts.items()} == {"train": 1258, "val": 180, "test": 359}
    assert sorted(i for own in parts.values() for i in own) == list(range(1797))
    assert make("digits")._parts == parts and task.revision() == make("digits").revision()
    labels = task._digits.labels
    for split, share in (("val", 0.1), ("test", 0.2)):
        counts = Counter(labels[i] for i in parts[split])
        assert all(abs(counts[c] - share * labels.count(c)) <= 1 for c in range(10))


def test_digits_items(make, grey):
    task = make("digits")
    test = task.dataset("test", grey)
    batch = task.collate(grey)([test[i] for i in range(5)])
    assert batch["pixel_values"].shape == (5, 1, 8, 8) and batch["pixel_values"].dtype == torch.float32
    assert batch["labels"].shape == (5,) and batch["labels"].dtype == torch.int64
    original = task._digits.images[task._parts["test"][0]]
    assert torch.equal(test[0]["pixel_values"], (original - 0.5) / 0.5)
    large = Inputs(image=ImageInput(size=(3, 16, 16), mean=(0.0,) * 3, std=(1.0,) * 3, crop_pct=0.9))
    assert task.dataset("val", large)[0]["pixel_values"].shape == (3, 16, 16)
    assert len(make("digits", limit={"train": 50}).dataset("train", grey)) == 50


@pytest.mark.parametrize("name", ["digits", "cifar10", "imagenet1k"])
def test_augmentation_depends_on_seed_epoch_and_index_only(request, make, data_root, grey, colour, name):
    root = request.getfixturevalue("folder") if name == "imagenet1k" else data_root
    extra = {"classes": 3} if name == "imagenet1k" else {}
    inputs = grey if name == "digits" else colour
    limit = {"train": 24}
    data = make(name, root if name != "digits" else None, limit=limit, **extra).dataset("train", inputs)
    first = pixels(data)
    state = torch.get_rng_state()
    backwards = [data[i]["pixel_values"] for i in reversed(range(24))]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(torch.stack(backwards[::-1]), first)
    data.set_epoch(1)
    assert not torch.equal(pixels(data), first)
    data.set_epoch(0)
    workers = DataLoader(data, batch_size=5, num_workers=2, collate_fn=None, persistent_workers=True)
    assert torch.equal(torch.cat([batch["pixel_values"] for batch in workers]), first)
    data.set_epoch(1)
    assert torch.equal(torch.cat([batch["pixel_values"] for batch in workers]), pixels(data))
    plain = make(name, root if name != "digits" else None, limit=limit, augment=None, **extra)
    assert not torch.equal(pixels(plain.dataset("train", inputs)), first)


def test_digits_augmentation_takes_images_of_files_too(make, folder, colour):
    data = make("imagenet1k", folder, limit={"train": 24}, classes=3, augment="small_affine").dataset("train", colour)
    first = pixels(data)
    assert first.shape == (24, 3, 32, 32) and first.isfinite().all()
    data.set_epoch(1)
    again = [torch.equal(a, b) for a, b in zip(first, pixels(data), strict=True)]
    assert any(again) and not all(again)  # three in ten stay as they are


def test_cifar(make, data_root, colour):
    task = make("cifar10", data_root)
    assert task.num_classes == 10 and task.class_names[0] == "airplane"
    train, val, test = (task.dataset(split, colour) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (4500, 500, 2000)
    assert set(Counter(val.labels).values()) == {50} and set(Counter(test.labels).values()) == {200}
    assert not set(train.own) & set(val.own)
    assert make("cifar10", data_root).dataset("val", colour).own == val.own
    item = test[0]
    assert item["pixel_values"].shape == (3, 32, 32) and item["pixel_values"].abs().max() <= 1.0
    assert list(task.revision()) == ["cifar10/cifar10_subset.zip"]


def test_image_folder(make, folder, colour):
    task = make("imagenet1k", folder, classes=3, val_fraction=0.1)
    assert task.class_names == ["cat", "dog", "ship"]
    counts = {split: Counter(task.dataset(split, colour).labels) for split in ("train", "val", "test")}
    assert counts == {"train": {0: 27, 1: 27, 2: 27}, "val": {0: 3, 1: 3, 2: 3}, "test": {0: 6, 1: 6, 2: 6}}
    wide = Inputs(image=ImageInput(size=(3, 48, 48), mean=(0.0,) * 3, std=(1.0,) * 3, crop_pct=0.875))
    assert task.dataset("test", wide)[0]["pixel_values"].shape == (3, 48, 48)
    assert task.dataset("train", wide)[0]["pixel_values"].shape == (3, 48, 48)
    assert len(task.revision()) == 2


def test_centre_crop_is_timms(make, folder):
    from timm.data import create_transform

    from cgf.data.image_files import EncodedImages, Folder

    want = ImageInput(size=(3, 28, 28), mean=(0.4, 0.5, 0.6), std=(0.2,) * 3, crop_pct=0.875)
    test = make("imagenet1k", folder, classes=3).dataset("test", Inputs(image=want))
    timms = create_transform(
        (3, 28, 28), interpolation="bicubic", mean=want.mean, std=want.std, crop_pct=0.875, crop_mode="center"
    )
    source = Folder(folder / "imagenet1k")
    image = EncodedImages(source, source.names("val"))[0].convert("RGB")
    assert torch.allclose(test[0]["pixel_values"], timms(image), atol=1e-6)


def test_bad_images(make, folder, data_root, tmp_path, colour, grey):
    with pytest.raises(UserError, match="task digits is vision and needs a model that takes images"):
        make("digits").dataset("train", Inputs())
    with pytest.raises(UserError, match="has the splits train, val, test, and 'valid'"):
        make("digits").dataset("valid", grey)
    with pytest.raises(UserError, match=r"needs 1000 classes, and .*imagenet1k has 3"):
        make("imagenet1k", folder).dataset("test", colour)
    with pytest.raises(UserError, match=r"needs .*cifar10_subset.zip, and there is no such file"):
        make("cifar10", tmp_path).dataset("test", colour)
    with pytest.raises(UserError, match=r"needs .*imagenet1k, and there is no such folder"):
        make("imagenet1k", tmp_path).dataset("test", colour)
    with pytest.raises(UserError, match=r"task.augment needs to be one of"):
        make("cifar10", data_root, augment="mixup")
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10_subset.zip").write_bytes(b"no zip")
    with pytest.raises(UserError, match="needs to be a zip archive"):
        make("cifar10", tmp_path).dataset("test", colour)


def test_bad_folders(make, tmp_path, colour):
    root = tmp_path / "imagenet1k"
    (root / "train" / "cat").mkdir(parents=True)
    task = {"classes": None, "augment": None}
    with pytest.raises(UserError, match=r"needs class folders in .*/val"):
        make("imagenet1k", tmp_path, **task).dataset("test", colour)
    (root / "val" / "dog").mkdir(parents=True)
    with pytest.raises(UserError, match="needs the same classes in every folder"):
        make("imagenet1k", tmp_path, **task).dataset("test", colour)
    (root / "val" / "dog").rename(root / "val" / "cat")
    with pytest.raises(UserError, match="needs images in every class, and cat has none"):
        make("imagenet1k", tmp_path, **task).dataset("test", colour)
    (root / "val" / "cat" / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"val/cat/broken.jpg needs to be an image"):
        make("imagenet1k", tmp_path, **task).dataset("test", colour)[0]


def test_splits_that_share_images_are_refused(make, folder, colour):
    """The same folder, one inside the other, and a link to a class; nothing is left to be tested on unseen."""
    place = folder / "imagenet1k"
    (place / "linked").mkdir()
    (place / "linked" / "cat").symlink_to(place / "train" / "cat")
    for folders, shown in (
        ({"train": ".", "test": "."}, "/. for train has images of .*/. for test"),
        ({"train": "train", "test": "./val/../train"}, "/train for train has images of .* for test"),
        ({"train": ".", "test": "val"}, "/. for train has images of .*/val for test"),
        ({"train": "train", "val": "train", "test": "val"}, "/train for train has .* for val"),
        ({"train": "train", "test": "linked"}, "/train for train has images of .*/linked for test"),
    ):
        with pytest.raises(UserError, match=shown):
            make("imagenet1k", folder, classes=None, folders=folders).dataset("train", colour)
    assert len(make("imagenet1k", folder, classes=3).dataset("test", colour)) == 18


def test_an_archives_folder_serves_one_split(make, data_root, colour):
    for test in ("train", "./train"):
        with pytest.raises(UserError, match="needs a source of its own for each split"):
            make("cifar10", data_root, folders={"train": "train", "test": test}).dataset("train", colour)


@pytest.mark.parametrize(
    "name, setting",
    [
        ("imagenet1k", {"folders": {"train": "../other/train", "test": "val"}}),
        ("imagenet1k", {"folders": {"train": "train", "test": "/tmp"}}),
        ("cifar10", {"archive": "a/../../b.zip"}),
        ("tiny_imagenet", {"table": "../labels.csv"}),
        ("tiny_imagenet", {"archive": "/a.zip"}),
        ("banking77", {"files": {"train": "train.csv", "test": "../sst2/dev.tsv"}}),
        ("banking77", {"class_file": "/etc/passwd"}),
    ],
)
def test_paths_of_a_task_stay_inside_its_folder(make, name, setting):
    with pytest.raises(UserError, match=rf"task.{next(iter(setting))}.* needs a path inside the folder of task {name}"):
        make(name, None, **setting)


@pytest.mark.parametrize("name", ["imagenet1k", "sst2"])
def test_a_split_of_the_hub_serves_one_split(make, name):
    with pytest.raises(UserError, match=r"task.hub_splits names train for train and test"):
        make(name, None, hub_splits={"train": "train", "test": "train"})


@pytest.mark.parametrize("names", [{"train": "train"}, {"test": "test"}, {"train": "train", "test": None}])
def test_images_without_a_test_split_of_their_own_are_refused(names):
    """They would be tested on what they were trained on."""
    for setting in ("folders", "hub_splits"):
        with pytest.raises(UserError, match=rf"task own needs a name for (test|train) in task.{setting}"):
            ImageFolderTask(name="own", hub="some/images", **{setting: names})
    with pytest.raises(UserError, match="has the splits train, val, test, and 'dev' was asked for"):
        ImageFolderTask(name="own", folders={"train": "train", "test": "test", "dev": "x"})


def test_folds_of_digits_leave_the_validation_images_out_and_test_each_other_once():
    whole = DigitsTask()._parts
    parts = [DigitsTask(fold=fold)._parts for fold in range(5)]
    labels = DigitsTask()._digits.labels
    tested = sorted(i for part in parts for i in part["test"])
    assert tested == sorted([*whole["train"], *whole["test"]]) and len(tested) == 1617
    for part in parts:
        assert part["val"] == whole["val"]
        assert sorted([*part["train"], *part["val"], *part["test"]]) == list(range(1797))
        counts = [sum(labels[i] == digit for i in part["test"]) for digit in range(10)]
        assert len(part["test"]) in (323, 324) and min(counts) >= 30 and max(counts) <= 35
    for settings in ({"fold": 5}, {"fold": -1}, {"fold": True}, {"fold": 0, "folds": 1}, {"folds": 2.5}):
        with pytest.raises(UserError, match=r"task\.folds? "):
            DigitsTask(**settings)
