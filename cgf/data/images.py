"""Images in, model inputs out: augmentation, resizing, normalisation.

An image is a PIL image or a float tensor (C, H, W) in [0, 1] until it is normalised; torchvision's functions
take both, and PIL's own resizing is what pretrained models were evaluated with. It takes two seconds to load, which
commands on texts do not wait for.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from PIL import Image
from torch.nn.functional import affine_grid, grid_sample

from cgf.data.task import ImageInput
from cgf.errors import UserError
from cgf.types import VendorObject

Picture = VendorObject  # PIL.Image.Image, or a tensor (C, H, W): torchvision's functions take both
Augment = Callable[[Picture, ImageInput], Picture]


@contextmanager
def seeded(*parts: int) -> Iterator[None]:
    """Torch's CPU generator seeded from the parts inside, and as before afterwards."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: it would also reset the CUDA generators, which dropout draws from.
        torch.default_generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        yield


def set_channels(image: Picture, channels: int) -> Picture:
    """The image in grey (1) or colour (3)."""
    if isinstance(image, Image.Image):
        return image.convert("L" if channels == 1 else "RGB")
    if image.shape[0] == channels:
        return image
    if channels == 3:
        return image.expand(3, -1, -1)
    from torchvision.transforms.v2 import functional as F

    return F.rgb_to_grayscale(image)


def resized_crop(image: Picture, want: ImageInput) -> Picture:
    """A random part of 8 to 100 % of the area, at the model's size, and a flip; ImageNet's usual choice."""
    from torchvision.transforms import InterpolationMode, v2

    size, mode = list(want.size[1:]), InterpolationMode(want.interpolation)
    return v2.RandomHorizontalFlip()(v2.RandomResizedCrop(size, interpolation=mode, antialias=True)(image))


def pad_crop(image: Picture, want: ImageInput) -> Picture:
    """A random crop after padding by an eighth of the side (4 of CIFAR's 32 pixels), and a flip."""
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F

    height, width = F.get_size(image)
    crop = v2.RandomCrop([height, width], padding=max(1, min(height, width) // 8))
    return v2.RandomHorizontalFlip()(crop(image))


def small_affine(image: Picture, want: ImageInput) -> Picture:
    """Up to 15 degrees, 15 % of scale and a sixth of the side; no flip, since digits have a handedness.

    Bicubic and by parts of a pixel, because whole pixels are coarse on an image of 8 x 8. Three images in ten
    stay as they are: a model trained on moved, and so blurred, images alone reads sharp ones badly.
    """
    if torch.rand(()) < 0.3:
        return image
    if not isinstance(image, torch.Tensor):
        from torchvision.transforms.v2 import functional as F

        image = F.to_dtype(F.pil_to_tensor(image), torch.float32, scale=True)
    angle, scale, right, down = (torch.rand(4) - 0.5).tolist()
    turn, size = math.radians(30 * angle), 1 + 0.3 * scale
    matrix = [
        [math.cos(turn) / size, -math.sin(turn) / size, 0.35 * right],
        [math.sin(turn) / size, math.cos(turn) / size, 0.35 * down],
    ]
    grid = affine_grid(torch.tensor([matrix]), [1, *image.shape], align_corners=False)
    return grid_sample(image[None], grid, mode="bicubic", align_corners=False)[0]


AUGMENTS: dict[str, Augment] = {"resized_crop": resized_crop, "pad_crop": pad_crop, "small_affine": small_affine}


def check_augment(name: str | None) -> None:
    """UserError unless it names an augmentation, or none."""
    if name is not None and name not in AUGMENTS:
        raise UserError(f"task.augment needs to be one of {', '.join(AUGMENTS)}, null, and it is {name!r}")


def fit(image: Picture, want: ImageInput, crop: bool) -> torch.Tensor:
    """The model's input (C, H, W) float32: resized, its centre cropped, normalised.

    crop: resize to size / crop_pct, keeping the shape unless the model stretches, and crop the centre; else stretch to
    the size.
    An image that already has the size is left as it is where crop is False or crop_pct is 1.
    """
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as F

    height, width = want.size[1:]
    mode = InterpolationMode(want.interpolation)
    if not crop or (want.crop_pct >= 1 and height != width):
        goal = [height, width]
    elif height == width and not want.stretch:
        goal = [int(height / want.crop_pct)]
    else:
        goal = [int(height / want.crop_pct), int(width / want.crop_pct)]
    if F.get_size(image) != [height, width] or goal not in ([height], [height, width]):
        image = F.center_crop(F.resize(image, goal, interpolation=mode, antialias=True), [height, width])
    if isinstance(image, Image.Image):
        image = F.to_dtype(F.pil_to_tensor(image), torch.float32, scale=True)
    return F.normalize(image, list(want.mean), list(want.std))
