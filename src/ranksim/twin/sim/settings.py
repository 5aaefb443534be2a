"""What of a scenario may be set while its world runs; what may not, and why."""

from __future__ import annotations

from collections.abc import Iterator

from ranksim.core.contract.parameters import PLANS, parts_of
from ranksim.core.contract.plans import HOW_JOBS_RUN
from ranksim.twin.sim.scenario_fields import ScenarioFields, Stated, changes_by, laid_over
from ranksim.twin.sim.timeline import Set

ANY = "*"
"""The part of a path that stands for every name."""

SETTABLE = (
    "scenario.pools",
    *(f"scenario.receivers.*.{name}" for name in ("latency", "status", "script", "script_by", "when_down")),
    *(f"policy.catalogue.{name}" for name in ("plans", "add_ons", "unit_costs", *HOW_JOBS_RUN)),
    *(f"policy.{section}.*" for section in ("facts", "assumptions", "statuses")),
)
"""What can be set while a world runs, but for what is `FIXED`."""

IN_WORDS = (
    "what can: pools; latency, status and scripts of receivers; plans, add-ons, unit costs and how jobs run, "
    "of policy.catalogue; facts, statuses and most assumptions of the policy"
)

FIXED = {
    "it is decided before the world begins": ("scenario",),
    "accounts change by change_plan, set_add_on, set_status, add_keywords and the like": (
        PLANS[0],
        "scenario.accounts",
    ),
    "clients are programs under way; let one stop and another start (stops, starts)": ("scenario.clients",),
    "an endpoint changes by edit_endpoint, and is down by receiver_down": ("scenario.receivers",),
    "it is many values; set what changes of them": ("policy", "policy.catalogue"),
    "rate windows that are open were opened by it": (
        "policy.facts.rate_window",
        *(
            f"policy.assumptions.{name}"
            for name in ("window", "refused_calls_count", "reset_reports", "graphql_cost", "tracking_class")
        ),
    ),
    "deliveries under way are planned by it": ("policy.facts.webhook_delays",),
    "books and slots are counted by it from the start": tuple(
        f"policy.assumptions.{name}"
        for name in (
            *("month", "week_offset", "cooldown_scope", "cost_timing", "spent_counts", "keyword_folding"),
            *("existing_scope", "hold_identity", "scan_counts"),
        )
    ),
    "replies are stored by it": ("policy.assumptions.idempotency_scope", "policy.assumptions.fingerprint"),
}
"""Why what some paths lead to cannot be set while a world runs."""

WHY = dict.fromkeys(SETTABLE, "") | {path: why for why, paths in FIXED.items() for path in paths}


def check_settable(path: str) -> None:
    """Raise ValueError, with the reason, where what a path leads to cannot be set while a world runs.

    Of the paths that have a say, the longest one counts, and a name before `ANY`.
    """
    parts = [str(part) for part in parts_of(path)]
    rules = [rule for rule in WHY if _leads(rule.split("."), parts)]
    if why := WHY[max(rules, key=lambda rule: (rule.count("."), ANY not in rule))]:
        raise ValueError(f"{path} cannot change while a world runs: {why}; {IN_WORDS}")


def _leads(rule: list[str], parts: list[str]) -> bool:
    """Return whether a path leads into what a rule is about."""
    return len(rule) <= len(parts) and all(a in (ANY, b) for a, b in zip(rule, parts, strict=False))


def after(scenario: Stated, action: Set) -> Stated:
    """Return a scenario as it goes on once a value is set. Raises BadInput for a wrong value."""
    return laid_over(scenario, changes_by(scenario, {action.path: action.value}))


def stretches(scenario: Stated) -> Iterator[Stated]:
    """Yield the scenario as it begins, and as it goes on after each value that its timeline sets."""
    yield scenario
    for _, action in in_order(scenario):
        scenario = after(scenario, action)
        yield scenario


def in_order(scenario: ScenarioFields) -> list[tuple[int, Set]]:
    """Return what the timeline sets, in order of time, and where each stands there."""
    setting = [(index, each) for index, each in enumerate(scenario.timeline) if isinstance(each, Set)]
    return sorted(setting, key=lambda pair: (pair[1].at.on(scenario.start), pair[0]))
