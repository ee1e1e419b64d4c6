"""From the photograph to one crop and one mask per coin."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from skimage import data, filters, measure, morphology, segmentation, transform

CROP_SIZE = 32
MIN_AREA = 100  # pixels; smaller regions are specks of the background


class Box(NamedTuple):
    """A square window in the photograph, in pixels."""

    top: int
    left: int
    size: int


def load_photo() -> np.ndarray:
    return (data.coins() / 255.0).astype(np.float32)


def find_coins(photo: np.ndarray) -> tuple[np.ndarray, list]:
    """Label image and regions of the coins, in reading order."""
    bright = photo > filters.threshold_otsu(photo)
    solid = morphology.closing(bright, np.ones((3, 3)))
    labels = measure.label(segmentation.clear_border(solid))
    regions = [region for region in measure.regionprops(labels) if region.area >= MIN_AREA]
    return labels, sorted(regions, key=lambda region: (region.centroid[0] // 75, region.centroid[1]))


def square_around(region, shape, margin=4) -> Box:
    """The square window around a region, moved (or shrunk) so that it stays in the photograph."""
    top, left, bottom, right = region.bbox
    size = min(max(bottom - top, right - left) + 2 * margin, *shape)
    centre_y, centre_x = (top + bottom) // 2, (left + right) // 2
    top = int(np.clip(centre_y - size // 2, 0, shape[0] - size))
    left = int(np.clip(centre_x - size // 2, 0, shape[1] - size))
    return Box(top, left, size)


def cut(image: np.ndarray, box: Box) -> np.ndarray:
    window = image[box.top : box.top + box.size, box.left : box.left + box.size]
    return transform.resize(window, (CROP_SIZE, CROP_SIZE), order=1, anti_aliasing=True)


def load_crops() -> tuple[Array, Array, list[Box]]:
    """Crops (n, 32, 32), soft masks (n, 32, 32) and the window of each, all float32."""
    photo = load_photo()
    labels, regions = find_coins(photo)
    crops, masks, boxes = [], [], []
    for region in regions:
        box = square_around(region, photo.shape)
        crops.append(cut(photo, box))
        masks.append(cut((labels == region.label).astype(np.float32), box))
        boxes.append(box)
    return jnp.asarray(np.stack(crops), jnp.float32), jnp.asarray(np.stack(masks), jnp.float32), boxes
