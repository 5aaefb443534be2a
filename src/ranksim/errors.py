"""The one exception a user can meet, and the words for a name that is not known."""


class BadInput(ValueError):
    """Input of ours is wrong: a scenario, a policy, a trace line, a flag.

    The message is one sentence: where (file and line, or dotted path), what was expected, what to do.
    The command line prints it and exits with 2.
    """


def no_such(what: str, name: str, known: tuple[str, ...], otherwise: str = "") -> str:
    """Say that there is nothing of this name: what comes near, else `otherwise` or all that there is."""
    from difflib import get_close_matches  # late: errors are read before an interrupt can be caught

    close = get_close_matches(name, known, n=3)
    hint = otherwise or f"expected one of {', '.join(known)}"
    if close:
        hint = f"did you mean {' or '.join(map(repr, close))}?"
    return f"no such {what} {name!r}; {hint}"
