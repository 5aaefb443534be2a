"""`ranksim` and `python -m ranksim` are the command line."""

import gc
import os
import sys


def main() -> None:
    """Run the command line. An interrupt while it still loads is told as one later is.

    Nothing that is read at the start is garbage, so none is looked for meanwhile; `ranksim serve` looks for
    it once it serves. Plugins of pydantic, which other programs may have installed, are not asked for.
    """
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        if sys.argv[1:2] == ["serve"]:  # alone: whoever waits for it does not wait for the other commands
            from functools import partial

            from ranksim.report import command_line, terminal
            from ranksim.twin.facade.cli import add_serve
            from ranksim.twin.testing.beginning import beginning_of, origin_of

            app = command_line.new_app()
            add_serve(app, partial(beginning_of, tell=terminal.say), origin_of)
            command_line.run_app(app)
            return
        from ranksim import cli
    except KeyboardInterrupt:
        gc.enable()
        print("ranksim: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    gc.freeze()
    gc.enable()
    cli.main()


if __name__ == "__main__":
    main()
