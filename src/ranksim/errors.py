"""The one exception a user can meet."""


class BadInput(ValueError):
    """Input of ours is wrong: a scenario, a policy, a trace line, a flag.

    The message is one sentence: where (file and line, or dotted path), what was expected, what to do.
    The command line prints it and exits with 2.
    """
