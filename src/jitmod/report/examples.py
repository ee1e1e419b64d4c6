"""Examples of reasons for which no page of a codemod has one: what vmapify leaves as it is, and says why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "guarded-work": """\
def f(net: Net, xs: jax.Array):
    return [net(x) for x in xs if x is not None]
""",
        "loop-else": """\
def f(net: Net, xs: jax.Array):
    out = []
    for x in xs:
        out.append(net(x))
    else:
        print("done")
    return out
""",
        "lazy-iterator": """\
def f(net: Net, xs: jax.Array):
    return sum(net(x) for x in xs)
""",
        "unknown-iterable": """\
def f(net: Net, xs: jax.Array):
    i = 0
    while i < len(xs):
        print(net(xs[i]))
        i += 1
""",
        "slice-bounds": """\
def f(net: Net, xs: jax.Array):
    return [net(xs[i : i + 3]) for i in range(len(xs))]
""",
        "static-leaves-differ": """\
def f(nets: dict[str, Net], names: list[str], xs: jax.Array):
    return [nets[name](x) for name, x in zip(names, xs)]
""",
        "ragged-items": """\
def f(net: Net, a: jax.Array, b: jax.Array):
    return [net(x) for x in (a, b)]
""",
        "live-out-unbound": """\
def f(net: Net, xs: jax.Array):
    for x in xs:
        y = net(x)
    return y
""",
        "unresolved-callee": """\
def logged(f):
    return f

class Logged(eqx.Module):
    layer: eqx.nn.Linear

    @logged
    def __call__(self, x):
        return self.layer(x)

def f(net: Logged, xs: jax.Array):
    return [net(x) for x in xs]
""",
        "rebound-global": """\
GAIN = 1.0

def louder():
    global GAIN
    GAIN = 2.0

class Scaled(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x):
        return self.layer(x) * GAIN

def f(net: Scaled, xs: jax.Array):
    return [net(x) for x in xs]
""",
        "may-alias": """\
def f(net: Net, xs: list[jax.Array]):
    for i, x in enumerate(xs):
        xs[0] = jnp.zeros(3)
        print(float(net(x)[0]))
""",
        "mutable-self": """\
class Runner:
    net: Net

    def run(self, xs: jax.Array):
        for x in xs:
            print(float(self.net(x)[0]))
            self.net = eqx.tree_at(lambda n: n.layer.bias, self.net, jnp.zeros(3))
""",
        "local-callable": """\
def f(net: Net, xs: jax.Array):
    batched = jax.vmap(net)
    return [batched(x) for x in xs]
""",
        "exception-order": """\
def f(net: Net, xs: jax.Array):
    out = []
    try:
        for x in xs:
            out.append(net(x))
    except ValueError:
        pass
    return out
""",
        "timing-loop": """\
import time

def f(net: Net, xs: jax.Array):
    for x in xs:
        start = time.perf_counter()
        net(x).block_until_ready()
        print(time.perf_counter() - start)
""",
        "already-compiled": """\
@eqx.filter_jit
def f(net: Net, xs: jax.Array):
    return jnp.stack([net(x) for x in xs])
""",
        "dynamic-scope": """\
def f(net: Net, xs: jax.Array):
    out = []
    for x in xs:
        out.append(net(x))
    return locals()
""",
        "unparsable": """\
def f(net: Net, xs: jax.Array):
    for x in xs: print(float(net(x)[0]))
""",
        "may-be-empty": """\
def load(n: int) -> jax.Array:
    return jnp.ones((n, 3))

def f(net: Net, n: int):
    return [net(x) for x in load(n)]
""",
        "inplace-ndarray": """\
def scale(net: Net, x, buf):
    buf *= 2
    return net(x)

def f(net: Net, xs: jax.Array, buf: np.ndarray):
    return [jax.jit(scale)(net, x, buf) for x in xs]
""",
        "prng-order": """\
def f(net: Net, xs: jax.Array, key: jax.Array):
    out = []
    for x in xs:
        noise = jax.random.normal(key, (3,))
        key, _ = jax.random.split(key)
        out.append(net(x + noise))
    return out
""",
        "varying-static": """\
import functools

@functools.partial(jax.jit, static_argnames="n")
def pick(net, x, n):
    return net(x) * n

def f(net: Net, xs: jax.Array, sizes: jax.Array):
    return [pick(net, x, n=n) for x, n in zip(xs, sizes)]
""",
        "unhashable-static": """\
class Tagged(eqx.Module):
    layer: eqx.nn.Linear
    tags: set[str]

    def __call__(self, x):
        return self.layer(x)

def f(net: Tagged, xs: jax.Array):
    return [net(x) for x in xs]
""",
        "key-order": """\
class Stacked(eqx.Module):
    layers: dict[str, eqx.nn.Linear]

    def apply(self, x):
        first, second = self.layers.values()
        return second(first(x))

    def __call__(self, x):
        return self.apply(x)

def f(net: Stacked, xs: jax.Array):
    return [net(x) for x in xs]
""",
        "unknown-result": """\
class Odd(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x):
        return {"y": self.layer(x)}

def f(net: Odd, xs: jax.Array):
    return [net(x) for x in xs]
""",
    }
)
"""By reason. `Net` is an `equinox.Module` with a layer; the names of libraries are those that everyone gives them."""
