"""The published schemas; installed as the package jitmod.schema."""
