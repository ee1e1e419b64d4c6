"""Candidates that are wrong on purpose, by kind, beside the right ones that they were made from."""
