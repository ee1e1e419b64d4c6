"""jitmod: codemods that make JAX/Equinox code fast, and a trial that proves it."""

__version__ = "0.1.0"
