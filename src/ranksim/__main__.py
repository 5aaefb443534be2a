"""`python -m ranksim` is the command line."""

from ranksim.cli import main

if __name__ == "__main__":
    main()
