"""The network learns from a few labelled crops: gradients and optimiser run eagerly, until the loss is small."""

import equinox as eqx
import jax
import optax

from kitchen.recognise import Network


def loss(network, crops, kinds):
    scores = jax.vmap(network)(crops)
    return optax.softmax_cross_entropy_with_integer_labels(scores, kinds).mean()


def fit(network: Network, crops: jax.Array, kinds: jax.Array, most: int):
    optimiser = optax.adam(1e-2)
    state = optimiser.init(eqx.filter(network, eqx.is_array))
    for step in range(most):
        value, grads = eqx.filter_value_and_grad(loss)(network, crops, kinds)
        updates, state = optimiser.update(grads, state)
        network = eqx.apply_updates(network, updates)
        if step % 5 == 0:
            print(f"{step:3d} {value:.3f}")
        if float(value) < 0.1:
            break
    return network
