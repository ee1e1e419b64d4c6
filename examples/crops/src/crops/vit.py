"""A vision transformer over one crop: landmark heatmaps and a segmentation, both on the grid of patches."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


class PatchEmbed(eqx.Module):
    """Cuts crop and mask into patches, one token each."""

    proj: eqx.nn.Linear
    position: Array
    patch: int = eqx.field(static=True)

    def __init__(self, image_size: int, patch: int, dim: int, *, key):
        proj_key, position_key = jax.random.split(key)
        self.patch = patch
        self.proj = eqx.nn.Linear(2 * patch * patch, dim, key=proj_key)
        self.position = 0.02 * jax.random.normal(position_key, ((image_size // patch) ** 2, dim))

    def patches(self, image: Array) -> Array:
        """(h, w) -> (tokens, patch * patch)"""
        rows, columns = image.shape[0] // self.patch, image.shape[1] // self.patch
        tiles = image.reshape(rows, self.patch, columns, self.patch).transpose(0, 2, 1, 3)
        return tiles.reshape(rows * columns, self.patch * self.patch)

    def __call__(self, crop: Array, mask: Array) -> Array:
        pixels = jnp.concatenate([self.patches(crop), self.patches(mask)], axis=-1)
        return jax.vmap(self.proj)(pixels) + self.position


class Block(eqx.Module):
    """Pre-norm attention and MLP."""

    attention_norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    mlp_norm: eqx.nn.LayerNorm
    expand: eqx.nn.Linear
    contract: eqx.nn.Linear

    def __init__(self, dim: int, heads: int, *, key):
        attention_key, expand_key, contract_key = jax.random.split(key, 3)
        self.attention_norm = eqx.nn.LayerNorm(dim)
        self.attention = eqx.nn.MultiheadAttention(heads, dim, key=attention_key)
        self.mlp_norm = eqx.nn.LayerNorm(dim)
        self.expand = eqx.nn.Linear(dim, 2 * dim, key=expand_key)
        self.contract = eqx.nn.Linear(2 * dim, dim, key=contract_key)

    def __call__(self, tokens: Array, visible: Array) -> Array:
        x = jax.vmap(self.attention_norm)(tokens)
        tokens = tokens + self.attention(x, x, x, mask=visible)
        x = jax.vmap(self.expand)(jax.vmap(self.mlp_norm)(tokens))
        return tokens + jax.vmap(self.contract)(jax.nn.gelu(x))


class Encoder(eqx.Module):
    embed: PatchEmbed
    blocks: list[Block]
    norm: eqx.nn.LayerNorm

    def __init__(self, image_size: int, patch: int, dim: int, depth: int, heads: int, *, key):
        embed_key, *block_keys = jax.random.split(key, depth + 1)
        self.embed = PatchEmbed(image_size, patch, dim, key=embed_key)
        self.blocks = [Block(dim, heads, key=k) for k in block_keys]
        self.norm = eqx.nn.LayerNorm(dim)

    def __call__(self, crop: Array, mask: Array, context: Array | None = None) -> Array:
        """One token per patch, (tokens, dim). Patches without a pixel of the coin are not attended to."""
        tokens = self.embed(crop, mask)
        if context is not None:
            tokens = tokens + context
        covered = jnp.max(self.embed.patches(mask), axis=-1) > 0
        visible = jnp.broadcast_to(covered, (covered.size, covered.size))
        for block in self.blocks:
            tokens = block(tokens, visible)
        return jax.vmap(self.norm)(tokens)


class LandmarkHead(eqx.Module):
    """Heatmaps (landmarks, grid, grid) and segmentation logits (grid, grid) of one crop (32, 32) and its mask."""

    encoder: Encoder
    heatmap: eqx.nn.Linear
    segment: eqx.nn.Linear

    def __init__(self, image_size=32, patch=8, dim=64, depth=12, landmarks=5, *, key):
        encoder_key, heatmap_key, segment_key = jax.random.split(key, 3)
        self.encoder = Encoder(image_size, patch, dim, depth, heads=4, key=encoder_key)
        self.heatmap = eqx.nn.Linear(dim, landmarks, key=heatmap_key)
        self.segment = eqx.nn.Linear(dim, 1, key=segment_key)

    def __call__(self, crop: Array, mask: Array) -> tuple[Array, Array]:
        tokens = self.encoder(crop, mask)
        grid = crop.shape[0] // self.encoder.embed.patch
        heatmaps = jax.vmap(self.heatmap)(tokens).T.reshape(-1, grid, grid)
        logits = jax.vmap(self.segment)(tokens).reshape(grid, grid)
        return heatmaps, logits
