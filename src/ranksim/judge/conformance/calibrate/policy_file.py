"""The policy of a deployment, as far as a trace pins it, and the YAML that says what pins each line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from ranksim.core.clock import SECOND, format_duration
from ranksim.core.contract.facts import SPENDING_OPERATIONS
from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.policy import CATALOGUES, Policy, shipped_catalogue
from ranksim.core.contract.yamlfile import comment, write_yaml
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.spending.statements import parse_money

if TYPE_CHECKING:
    from ranksim.judge.conformance.calibrate.measures import Measure
    from ranksim.judge.conformance.calibrate.outcome import CalibrationOutcome, Choice
    from ranksim.judge.conformance.verdict.verdicts import Evidence


def calibrated_policy(outcome: CalibrationOutcome) -> Policy:
    """Make the policy: what is pinned from the trace, all else from the policy that was given.

    It states what is pinned and what was given, and nothing more, so that a judge leaves the rest open.
    """
    base = outcome.base
    pinned = {choice.name: choice.left[0] for choice in outcome.choices if choice.name and choice.pinned}
    pinned |= {name: measure.low for name, measure in _exact(outcome).items()}
    if any(difference.number == 31 for difference in outcome.differences):
        pinned["replay_header"] = None
    statuses = {status.name: status.status for status in outcome.statuses if status.status is not None}
    changes: dict[str, Any] = {
        "name": "calibrated",
        "assumptions": base.assumptions.model_copy(update=pinned),
        "statuses": base.statuses.model_copy(update=statuses),
    }
    catalogue = _catalogue(outcome)
    if catalogue is not None:
        changes["catalogue"] = catalogue
    return base.model_copy(update=changes)


def _exact(outcome: CalibrationOutcome) -> dict[str, Measure]:
    """Measures that are fields of the assumptions and known exactly."""
    return {
        measure.name: measure
        for measure in outcome.measures
        if measure.name in ("week_offset", "idempotency_key_max") and measure.exact
    }


# Plans and jobs


def _catalogue(outcome: CalibrationOutcome) -> Catalogue | None:
    """The catalogue with the durations that were fitted, and plans as accounts could read them; else None.

    What needs which capability no trace shows: unless a policy stated it, the catalogue does not.
    """
    catalogue = outcome.base.catalogue
    durations = {
        measure.name.removeprefix("job duration "): measure.fit
        for measure in outcome.measures
        if measure.name.startswith("job duration ") and measure.fit is not None
    }
    plans = dict(catalogue.plans)
    named = set(catalogue.capability_of.values())
    for account, name, read in _read_plans(outcome.history):
        plan = _plan(name, read, _cooldowns(outcome, account), plans.get(name))
        # else its capabilities go by names that the rules do not know
        if plan is not None and named >= set(plan.capabilities):
            plans[name] = plan
    if not durations and plans == catalogue.plans:
        return None
    given = catalogue.model_fields_set
    if "catalogue" not in outcome.base.model_fields_set:
        given = given - {"capability_of"}
    learnt = {
        "name": "calibrated",
        "note": "as far as a trace shows it; what it does not show is nobody's",
        "plans": plans,
        "job_durations": catalogue.job_durations | durations,
    }
    return Catalogue(**{name: getattr(catalogue, name) for name in given} | learnt)


def _cooldowns(outcome: CalibrationOutcome, account: str) -> dict[str, int]:
    """An account's cooldowns by operation, at the whole second in the middle of what is left."""
    lengths = {}
    for measure in outcome.measures:
        kind = measure.name.removeprefix("cooldown ")
        if measure.account == account and kind in SPENDING_OPERATIONS and measure.high is not None:
            middle = (measure.low + measure.high) // 2 // SECOND * SECOND
            lengths[kind] = measure.low if measure.exact else middle
    return lengths


def _read_plans(history: History) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What each account read about itself, entitlements and usage, with the name of its plan."""
    names: dict[str, str] = {}
    read: dict[str, dict[str, Any]] = {}
    for exchange in history.by_operation("account.get", "account.entitlements", "account.usage"):
        if not isinstance(exchange.data, Mapping):
            continue
        if exchange.operation == "account.get":
            names.setdefault(exchange.account, str(exchange.data.get("plan")))
        else:
            read.setdefault(exchange.account, {}).setdefault(exchange.operation, exchange.data)
    for account, replies in read.items():
        if account in names and len(replies) == 2:
            yield account, names[account], replies


def _plan(name: str, read: Mapping[str, Any], cooldowns: dict[str, int], shipped: Plan | None) -> Plan | None:
    """Make a plan of what an account read; what it cannot read is the known plan's, or nothing.

    None where the numbers read are beyond all that a plan may have.
    """
    entitled, usage = read["account.entitlements"], read["account.usage"]
    capabilities = entitled.get("capabilities")
    sizes = entitled.get("dimensions") if isinstance(entitled.get("dimensions"), Mapping) else {}
    given: dict[str, Any] = {
        "name": name,
        "price": getattr(shipped, "price", 0),
        "capabilities": tuple(map(str, capabilities)) if isinstance(capabilities, list) else (),
        "quotas": _quotas(usage, shipped),
        "dimensions": {
            "max_engine_devices": _count(sizes.get("engine_devices"), 1),
            "max_geographies": _count(sizes.get("geographies"), 1),
        },
        "cost_ceiling": _money(usage, getattr(shipped, "cost_ceiling", 0)),
        "cooldowns": {kind: _length(entitled, kind, length) for kind, length in cooldowns.items()},
    }
    for cap in ("slot_limit", "page_cap", "call_cap"):
        given[cap] = _count(entitled.get(cap), getattr(shipped, cap, 0))
    try:
        return Plan.model_validate(given)
    except ValidationError:
        return None


def _length(entitled: Mapping[str, Any], kind: str, measured: int) -> int:
    stated = entitled.get("cooldown_seconds")
    seconds = stated.get(kind) if isinstance(stated, Mapping) else None
    return seconds * SECOND if isinstance(seconds, int) and seconds >= 0 else measured


def _quotas(usage: Mapping[str, Any], shipped: Plan | None) -> dict[str, Any]:
    quotas: dict[str, Any] = {}
    metrics = usage.get("metrics")
    for metric in metrics if isinstance(metrics, list) else ():
        if not isinstance(metric, Mapping):
            continue
        name, limit, period = metric.get("metric"), metric.get("limit"), metric.get("period")
        if isinstance(name, str) and isinstance(limit, int) and limit >= 0 and period in ("week", "month"):
            before = None if shipped is None else shipped.quotas.get(name)
            consumed: tuple[str, ...] = () if before is None else before.consumed_by
            if before is None and name == "keyword_brief_refreshes":
                consumed = ("keyword_briefs",)
            quotas[name] = {"limit": limit, "period": period, "consumed_by": consumed}
    return quotas


def _count(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and value >= 0 else otherwise


def _money(usage: Mapping[str, Any], otherwise: int) -> int:
    cost = usage.get("cost")
    ceiling = parse_money(cost.get("ceiling")) if isinstance(cost, Mapping) else None
    return otherwise if ceiling is None or ceiling < 0 else ceiling


# Writing


def dump(outcome: CalibrationOutcome) -> str:
    """Write the policy as YAML: all that is pinned, defaults included, and in comments what pins it."""
    policy = calibrated_policy(outcome)
    document = CommentedMap(name=policy.name)
    document.yaml_set_start_comment("Pinned by a trace; what is not listed stays open.\n")
    written = YAML(typ="safe", pure=True).load(policy.dump())
    if "facts" in written:
        document["facts"] = written["facts"]
    for name, lines in (
        ("assumptions", _assumptions(outcome, policy)),
        ("statuses", _statuses(outcome, policy)),
    ):
        section = CommentedMap()
        for field, value, why in lines:
            section[field] = value
            section.yaml_add_eol_comment(comment(why), field)
        if section:
            document[name] = section
    if "catalogue" in policy.model_fields_set:
        same = [name for name in CATALOGUES if shipped_catalogue(name) == policy.catalogue]
        document["catalogue"] = (
            same[0] if same else policy.catalogue.model_dump(mode="json", exclude_unset=True)
        )
    return write_yaml(document, footing=[*_measured(outcome), *_unpinned(outcome)], width=1000)


def _assumptions(outcome: CalibrationOutcome, policy: Policy) -> Iterator[tuple[str, Any, str]]:
    """Yield each assumption that the policy states, its value, and why."""
    pinned = {choice.name: choice for choice in outcome.choices if choice.name and choice.pinned}
    exact = _exact(outcome)
    for name, value in policy.assumptions.model_dump(mode="json").items():
        if name in pinned:
            yield name, value, _why(pinned[name])
        elif name in exact:
            yield name, value, f"U{exact[name].number}: {_by(exact[name].exchanges)}"
        elif name == "replay_header" and value is None:
            yield name, None, "U31: replays carry no such header"
        elif name in outcome.base.assumptions.model_fields_set:
            yield name, value, "as given"


def _statuses(outcome: CalibrationOutcome, policy: Policy) -> Iterator[tuple[str, int, str]]:
    """Yield each status that the policy states, and why."""
    pinned = {status.name: status for status in outcome.statuses if status.status is not None}
    for name, status in pinned.items():
        times = sum(status.seen.values())
        yield name, status.status or 0, f"{status.number}: {times} times, first {status.example}"
    for name in sorted(outcome.base.statuses.model_fields_set - pinned.keys()):
        yield name, getattr(policy.statuses, name), "as given"


def _why(choice: Choice) -> str:
    numbers = ", ".join(f"U{number}" for number in choice.numbers)
    excluded = "; ".join(f"not {value}: {_short(evidence)}" for value, evidence in choice.against.items())
    return f"{numbers}: {excluded}"


def _short(evidence: Evidence) -> str:
    return f"{' '.join(evidence.says.split())} ({_by((*evidence.exchanges, *evidence.deliveries))})"


def _by(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _measured(outcome: CalibrationOutcome) -> list[str]:
    lines = [f"  {measure_text(measure)}" for measure in outcome.measures]
    return ["", "Measured:", *lines] if lines else []


def measure_text(measure: Measure) -> str:
    """Write a measure on one line."""

    def quantity(value: int) -> str:
        return format_duration(value) if measure.unit == "µs" else f"{value} {measure.unit}"

    if measure.exact:
        length = quantity(measure.low)
    elif measure.high is None:
        length = f"at least {quantity(measure.low)}"
    else:
        length = f"{quantity(measure.low)} to {quantity(measure.high)}"
    fit = ""
    if measure.fit is not None:
        median = format_duration(measure.fit.durations[0])
        fit = f"; lognormal, median {median}, sigma {measure.fit.sigma}"
    by = f" ({_by(measure.exchanges)})" if measure.exchanges else ""
    whose = f" of account {measure.account}" if measure.account else ""
    return f"{measure.name}{whose} (U{measure.number}): {length}{fit}, {measure.count} observed{by}"


def _unpinned(outcome: CalibrationOutcome) -> list[str]:
    """Return what is left open, and what would pin it."""
    lines = ["", "Open, and how to observe it:"]
    if outcome.untried:
        lines[:0] = ["", f"Not tried with every option, for want of time: {', '.join(outcome.untried)}"]
    for choice in outcome.choices:
        if not choice.pinned:
            left = " or ".join(map(str, choice.left))
            if not choice.shown and choice.against:
                left = f"not {', '.join(map(str, choice.against))}, and nothing was refused for one"
            lines.append(f"  {choice.name or choice.says} (U{choice.numbers[0]}): {left}; {choice.observe}")
    for status in outcome.statuses:
        if status.status is None:
            lines.append(
                f"  {status.name} ({status.number}): {' and '.join(map(str, status.seen))} were both seen"
            )
    return lines
