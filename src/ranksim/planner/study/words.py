"""Parameters, metrics and conditions of a study in the words of the question, for its headline."""

from __future__ import annotations

import re

from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.spec import Goal
from ranksim.twin.sim.metrics import label

SECTIONS = {
    "pools": "pool",
    "clients": "client",
    "accounts": "account",
    "receivers": "receiver",
    "plans": "plan",
    "add_ons": "add-on",
}
"""What one of the things in a part of a scenario or a catalogue is called."""

ROOTS = ("scenario", "policy", "population")
"""Inputs that paths lead into, which nobody asks for by name."""

SIGNS = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}


def parameter_words(path: str) -> str:
    """Say a path: scenario.pools.rank_run.capacity is the capacity of pool rank_run."""
    root, *parts = path.split(".")
    if root not in ROOTS or not parts:
        return path
    for place in range(len(parts) - 3, -1, -1):
        if parts[place] in SECTIONS:
            field = " ".join(parts[place + 2 :]).replace("_", " ")
            return f"{field} of {SECTIONS[parts[place]]} {parts[place + 1]}"
    return parts[-1].replace("_", " ")


def metric_words(metric: str) -> str:
    """Say a metric as results do; one that has no words is its name."""
    return label(metric)


def goal_words(goal: Goal, condition: MetricCondition) -> str:
    """Say what a goal seeks: the smallest value of a parameter, and what is to hold with it."""
    words = metric_words(condition.metric)
    if words == condition.metric:
        return f"{goal.extreme} {parameter_words(goal.parameter)} such that {goal.such_that}"
    *_, sign, bound = re.split(r"(<=|>=|<|>)", goal.such_that)
    keeps = f"{SIGNS[sign]} {bound.strip()}"
    if condition.event is None:
        return f"{goal.extreme} {parameter_words(goal.parameter)} with which the {words} is {keeps}"
    _, event, value, *_ = re.split(r"(<=|>=|<|>)", goal.such_that)
    happens = f"{SIGNS[event]} {value.strip(' )')}"
    chance = f"the chance that the {words} is {happens} is {keeps}"
    return f"{goal.extreme} {parameter_words(goal.parameter)} with which {chance}"
