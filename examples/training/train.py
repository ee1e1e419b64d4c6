"""A classifier of handwritten digits, trained on the whole data set at once: python train.py [STEPS]"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

TRAINING = 1500  # images to learn from; the others are for the test

optim = optax.adam(1e-2)


def load():
    """Images (n, 64) between 0 and 1, and the digit on each."""
    images, digits = load_digits(return_X_y=True)
    return jnp.asarray(images / 16, jnp.float32), jnp.asarray(digits)


def new_model(key):
    return eqx.nn.MLP(in_size=64, out_size=10, width_size=16, depth=1, key=key)


def cross_entropy(model, images, digits):
    logits = jax.vmap(model)(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, digits).mean()


@eqx.filter_jit
def make_step(model, opt_state, images, digits):
    loss, grads = eqx.filter_value_and_grad(cross_entropy)(model, images, digits)
    updates, opt_state = optim.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, loss


def train(model, images, digits, steps: int):
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    for step in range(steps):
        model, opt_state, loss = make_step(model, opt_state, images, digits)
        if step % 100 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    return model


@eqx.filter_jit
def accuracy(model, images, digits):
    return jnp.mean(jnp.argmax(jax.vmap(model)(images), axis=1) == digits)


if __name__ == "__main__":
    images, digits = load()
    model = new_model(jax.random.key(0))
    model = train(model, images[:TRAINING], digits[:TRAINING], int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
    print(f"right on {accuracy(model, images[TRAINING:], digits[TRAINING:]):.1%} of the images it has not seen")
