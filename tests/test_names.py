"""One name, one thing: neither a class name nor that of a public function stands for two things."""

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


SHARED = {
    "the same question of each family of rules": """
        judge judge_counter judge_limit judge_meta judge_refused judge_stated judge_sum""",
    "a command, the question or the plot of its name, and what answers it": """
        back_test break_even calibrate check compare explain fit load outage pareto portfolio resend run
        search serve slots sync tidy trigger why workers""",
    "the same step in the rules, in the service around them and in compiled fleets": """
        admit ask_for book count decide settle spend stream take_up""",
    "the same thing as the API shows it and as the control API does": """
        get_account get_job issue_key list_deliveries list_jobs open_account""",
    "the same form of two results": """
        as_document as_text needs_of plot points rows summary timeline""",
    "the same rule where another thing is at hand": """
        check_add_ons chosen give may_write meter_resets read_catalogue with_settings""",
    "a reply, and its schema": "collection single",
    "read from a file, and written for people by `report.units`": "duration instant usd",
    "where a process begins": "main",
    "promised by `ranksim.price`; what a profile takes": "needs",
}
"""Public functions of several modules by why they may share a name."""


def test_no_public_function_name_means_two_things() -> None:
    """A name that stands in a second module has a reason here, or is another word."""
    places = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                places[node.name].add(path.relative_to(PACKAGE).as_posix())
    shared = {name for name, where in places.items() if len(where) > 1}
    assert shared == {name for names in SHARED.values() for name in names.split()}
