"""A client's images against the way that training data go."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from cgf.client.images import INTERPOLATIONS, Preparation, read_array
from cgf.data.images import fit, set_channels
from cgf.data.task import ImageInput
from cgf.errors import UserError


def expected(image, size, mean, std, interpolation, crop_pct, crop):
    want = ImageInput(size, mean, std, interpolation, crop_pct)
    image = torch.from_numpy(image) if isinstance(image, np.ndarray) else image
    return fit(set_channels(image, size[0]), want, crop).numpy()


@pytest.mark.parametrize("shape", [(3, 8, 8), (3, 10, 12), (1, 8, 8)])
@pytest.mark.parametrize("facts", [
    ((3, 8, 8), (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), "bicubic", 1.0, True),
    ((3, 8, 8), (0.5,), (0.5,), "bilinear", 0.9, True),
    ((3, 8, 8), (0.5,), (0.25,), "bicubic", 0.9, False),
    ((1, 8, 8), (0.1307,), (0.3081,), "bicubic", 1.0, False),
])  # fmt: skip
def test_an_array_is_prepared_as_training_data_are(tmp_path, shape, facts):
    pixels = np.random.default_rng(0).uniform(0, 1, (2, *shape)).astype(np.float32)
    np.save(tmp_path / "a.npy", pixels)
    got = list(Preparation(*facts).prepared(tmp_path / "a.npy"))
    for one, pixel in zip(got, pixels, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, expected(pixel, *facts), rtol=0, atol=1e-6)


def test_files_are_taken_by_name_and_8_bits_as_shares_of_255(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    for name, one in zip(("b.png", "a.png", "c.bmp"), pixels, strict=True):
        Image.fromarray(one).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    facts = ((3, 8, 8), (0.5,), (0.5,), "bicubic", 1.0, True)
    got = list(Preparation(*facts).prepared(tmp_path))
    for one, i in zip(got, (1, 0, 2), strict=True):
        np.testing.assert_allclose(one, expected(Image.fromarray(pixels[i]), *facts), rtol=0, atol=1e-6)
    np.save(tmp_path / "a.npy", pixels.transpose(0, 3, 1, 2))
    again = list(Preparation(*facts).prepared(tmp_path / "a.npy"))
    np.testing.assert_allclose(again[1], got[0], rtol=0, atol=1e-6)


def test_an_image_of_a_format_that_is_not_read_is_refused_by_name(tmp_path):
    """Left out, it would shift the numbers of the images behind it."""
    for name in ("a.png", "b.tif", "c.png"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / name)
    with pytest.raises(UserError, match=r"holds b\.tif too"):
        list(Preparation((3, 8, 8), (0.5,), (0.5,), "bicubic", 1.0, True).prepared(tmp_path))


def test_interpolations_are_those_of_torchvision():
    from torchvision.transforms import InterpolationMode

    assert set(INTERPOLATIONS) == {mode.value for mode in InterpolationMode}


def test_what_a_bundle_says_of_images_is_read_and_a_crop_among_their_facts_is_refused():
    """A crop stands beside the facts of the images: one among them would be given twice."""
    image = {"size": [1, 8, 8], "mean": [0.5], "std": [0.5], "interpolation": "bicubic", "crop_pct": 0.9}
    made = Preparation.of({"image": image, "crop": True}, "prepare")
    assert made == Preparation((1, 8, 8), (0.5,), (0.5,), "bicubic", 0.9, crop=True)
    with pytest.raises(UserError, match="prepare has no setting 'crop'"):
        Preparation.of({"image": {**image, "crop": True}, "crop": True}, "prepare")


def test_an_archive_that_is_cut_is_no_array(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"PK\x03\x04" + bytes(60))
    with pytest.raises(UserError, match="needs to hold images as numbers, and reading it failed"):
        read_array(tmp_path / "a.npy")


def test_what_is_no_regular_file_does_not_keep_the_client_waiting(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(UserError, match=r"a\.png must be a regular file to be read, and is none"):
        list(Preparation((1, 8, 8), (0.5,), (0.5,), "bicubic", 1.0, True).prepared(tmp_path))
