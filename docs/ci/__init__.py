"""Workflows that `jitmod init --ci` writes, as files of a package."""
