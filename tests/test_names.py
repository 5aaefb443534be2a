"""One name, one thing: no class name stands for two things anywhere in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ranksim"

# Names that may stand for two things, each with its reason.
MAY_BE_TWO: dict[str, str] = {
    "World": "`ranksim.World` and `ranksim.testing.World` are both promised",
}

# Names that still stand for two things. The list only shrinks.
STILL_TWO = {
    "Account", "Answer", "Asked", "Block", "Calendar", "Caller", "Choice", "Clock", "Condition",
    "CooldownInterpretation", "Delivery", "Deployment", "Difference", "Domain", "Entry",
    "Exchange", "Finding", "Observation", "Operation", "Outage", "Outcome", "Pace", "Pause",
    "Plan", "Pool", "Portfolio", "Precision", "Received", "Receiver", "Replay",
    "Request", "Response", "Rule", "Segment", "Tally", "Trial", "Until", "Verdict", "Ways", "Workers",
}  # fmt: skip


def test_no_class_name_stands_for_two_things() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    allowed = MAY_BE_TWO.keys() | STILL_TWO
    doubled = {name: found for name, found in places.items() if len(found) > 1 and name not in allowed}
    assert not doubled, "give each thing a name of its own"
