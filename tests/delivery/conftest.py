"""The fixtures of every test of this folder."""

from fixtures_git import checkout, git, isolated_git, repository

__all__ = ["checkout", "git", "isolated_git", "repository"]
