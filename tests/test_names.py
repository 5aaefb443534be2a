"""One name, one thing: no class name stands for two things anywhere in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ranksim"

# Names that stand for two things, where they are, and why.
TWO: dict[str, tuple[set[str], str]] = {
    "World": (
        {"twin/sim/world.py", "twin/testing/world.py"},
        "`ranksim.World` and `ranksim.testing.World` are both promised, and a test imports one of them",
    ),
    "Account": (
        {"core/service/state.py", "twin/testing/world.py"},
        "`ranksim.testing.Account` is promised; the service's is its state, which no user sees",
    ),
    "Received": (
        {"core/callers/steps.py", "twin/receiver/receiver.py"},
        "`ranksim.testing.Received` is promised; what comes back to a program is the word of its language",
    ),
    "Clock": (
        {"twin/sim/player.py", "twin/testing/clock.py"},
        "fixtures are annotated with `ranksim.testing.Clock`; what a player needs of one is a protocol",
    ),
    "Until": (
        {"core/callers/steps.py", "twin/facade/control/clock.py"},
        "the control API's OpenAPI document names a schema so; to programs it is a word of their language",
    ),
}


def test_no_class_name_stands_for_two_things() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(PACKAGE).as_posix())
    doubled = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert doubled == {name: sorted(found) for name, (found, _) in TWO.items()}
