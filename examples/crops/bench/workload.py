"""What is timed: `run(*setup())` for the main loop, and a pair of functions for each of the other loops."""

import jax
import numpy as np

from crops.augment import jittered_landmarks
from crops.consume import locate
from crops.data import CROP_SIZE, load_crops
from crops.predict import predict_landmarks
from crops.report import CoinReport
from crops.track import Tracker, follow
from crops.vit import LandmarkHead


def setup(coins=6):
    crops, masks, boxes = load_crops()
    head = LandmarkHead(image_size=CROP_SIZE, key=jax.random.key(0))
    return head, crops[:coins], masks[:coins], boxes[:coins]


def run(head, crops, masks, boxes):
    predictions = predict_landmarks(head, crops, masks)
    landmarks = locate(predictions, boxes)
    return predictions, np.array([(landmark.y, landmark.x) for landmark in landmarks], np.float32)


def setup_report():
    return setup(coins=3)[:3]


def run_report(head, crops, masks):
    return CoinReport(head).show(crops, masks)


def setup_augment():
    return *setup(coins=3)[:3], jax.random.key(1)


def run_augment(head, crops, masks, key):
    return jittered_landmarks(head, crops, masks, key)


def setup_track():
    head, crops, masks, _ = setup()
    return Tracker(head, key=jax.random.key(2)), crops, masks


def run_track(tracker, crops, masks):
    return follow(tracker, crops, masks)
