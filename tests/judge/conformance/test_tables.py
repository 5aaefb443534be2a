"""Every rule about calls and webhooks is seen held and seen broken by a hand-made trace."""

from importlib import import_module

import pytest
from tests.judge.conformance.test_further_rules import TABLE as FURTHER

from ranksim.judge.conformance.judging import FAMILIES

JUDGES = [import_module(make.__module__) for make in FAMILIES if ".calls." in make.__module__]
JUDGES += [import_module(make.__module__) for make in FAMILIES if ".webhooks." in make.__module__]


HELD_WHERE_ASSUMED_OTHERWISE = {"header.deprecation": "differs 81"}
"""Rules that hold only where an assumption turns out to differ."""


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__.rpartition(".")[2])
def test_each_rule_is_held_and_broken(judge: object) -> None:
    name = judge.__name__.rpartition(".")[2]
    table = import_module(f"tests.judge.conformance.test_{name}").TABLE
    rows = [(row[0] if len(row) == 3 else judge.RULES[0].name, row[-1]) for row in table.values()]
    rows += [(rule, expected) for _, rule, _, expected in FURTHER.values()]
    for rule in judge.RULES:
        held = HELD_WHERE_ASSUMED_OTHERWISE.get(rule.name, "held")
        assert {held, "broken"} <= {expected for tried, expected in rows if tried == rule.name}, rule.name
