"""`python -m jitmod` is the program `jitmod`."""

from jitmod.cli.main import main

if __name__ == "__main__":
    main()
