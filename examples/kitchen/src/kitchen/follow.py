"""Where a thrown object goes: a filter with a gain for every step, and a path step by step."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Air(eqx.Module):
    drag: jax.Array
    wind: eqx.nn.MLP

    def __call__(self, time, velocity):
        return -self.drag * velocity + 0.1 * self.wind(jnp.append(velocity, time))


@eqx.filter_jit
def push(air, time, velocity, step):
    middle = velocity + step / 2 * air(time, velocity)
    return velocity + step * air(time + step / 2, middle)


def speeds(air: Air, velocity: jax.Array, step: float, count: int):
    time = 0.0
    for _ in range(count):
        velocity = push(air, time, velocity, step)
        time = time + step
    return velocity


@jax.jit
def move(position, velocity):
    velocity = velocity + 0.01 * jnp.array([0.0, 0.0, -9.81])
    return position + 0.01 * velocity, velocity


def path(position: jax.Array, velocity: jax.Array, count: int):
    places = [position]
    for _ in range(count):
        position, velocity = move(position, velocity)
        places.append(position)
    return jnp.stack(places)
