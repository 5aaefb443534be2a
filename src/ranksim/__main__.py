"""`ranksim` and `python -m ranksim` are the command line."""

import sys


def main() -> None:
    """Run the command line. An interrupt while it still loads is told as one later is."""
    try:
        from ranksim import cli
    except KeyboardInterrupt:
        print("ranksim: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
