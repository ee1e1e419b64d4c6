"""What is timed: training for a few hundred steps."""

import jax

from train import TRAINING, load, new_model, train


def setup():
    images, digits = load()
    return new_model(jax.random.key(0)), images[:TRAINING], digits[:TRAINING]


def run(model, images, digits):
    return train(model, images, digits, 350)
