"""`python -m jitmod`, for interpreters that are started by others."""

from jitmod.cli.main import main

main()
