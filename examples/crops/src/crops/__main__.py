"""python -m crops: the whole pipeline on the photograph."""

import jax

from .augment import jittered_landmarks
from .consume import locate
from .data import CROP_SIZE, load_crops
from .predict import predict_landmarks
from .report import CoinReport
from .track import Tracker, follow
from .vit import LandmarkHead


def main():
    crops, masks, boxes = load_crops()
    head = LandmarkHead(image_size=CROP_SIZE, key=jax.random.key(0))
    CoinReport(head).show(crops, masks)
    landmarks = locate(predict_landmarks(head, crops, masks), boxes)
    spread = jittered_landmarks(head, crops, masks, jax.random.key(1)).std(axis=0).mean()
    tracker = Tracker(head, key=jax.random.key(2))
    path = follow(tracker, crops, masks)
    print(f"{len(landmarks)} landmarks on {len(boxes)} coins, spread {float(spread):.3f}, path of {len(path)} steps")


if __name__ == "__main__":
    main()
