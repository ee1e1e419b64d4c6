"""What is on the table: a network that is called for one crop after the other."""

from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp


class Network(eqx.Module):
    layers: list
    head: eqx.nn.Linear

    def __init__(self, width: int, depth: int, kinds: int, key: jax.Array):
        keys = jax.random.split(key, depth + 1)
        self.layers = [eqx.nn.MLP(width, width, 2 * width, 1, key=k) for k in keys[:-1]]
        self.head = eqx.nn.Linear(width, kinds, key=keys[-1])

    def __call__(self, crop):
        hidden = crop
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.head(jnp.tanh(hidden))


def recognise(network: Network, crops: list[jax.Array], names: list[str]):
    """How often each kind of object is seen, and how sure the network is of each crop."""
    seen, sure = Counter(), []
    for crop in crops:
        scores = jax.nn.softmax(network(crop))
        kind = int(jnp.argmax(scores))
        seen[names[kind]] += 1
        sure.append(float(scores[kind]))  # of the kind that it takes it for
    return dict(seen), sure
