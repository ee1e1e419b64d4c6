"""The process that runs a workload. It is started with the user's interpreter, where jitmod need not be installed:
the parent loads this folder as the package `_jitmod_child`, so its modules import the standard library, numpy, jax,
equinox and each other (relatively), and nothing else."""
