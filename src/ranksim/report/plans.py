"""A catalogue as people read it: a column a plan, its add-ons, and what work costs the provider."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.yamlfile import write_yaml
from ranksim.report import units
from ranksim.report.document import MetricShown, document, number
from ranksim.report.tables import View

UNKNOWN = "not known"
"""What stands in place of a price that a catalogue does not know."""


def sentence(catalogue: Catalogue) -> str:
    """Return what the catalogue is, in a sentence."""
    return (
        f"The catalogue {catalogue.name} ({catalogue.note}) has {units.many(len(catalogue.plans), 'plan')} "
        f"and {units.many(len(catalogue.add_ons), 'add-on')}."
    )


def views(catalogue: Catalogue) -> list[View]:
    """Return the catalogue as tables: plans, add-ons, and what a unit of work costs the provider."""
    tables = [_plans(catalogue)]
    if catalogue.add_ons:
        rows = tuple(
            (name, add_on.metric, units.count(add_on.amount), units.usd(add_on.price))
            for name, add_on in catalogue.add_ons.items()
        )
        tables.append(View("Add-ons", ("add-on", "of", "adds", "price a month"), 2, rows))
    costs = tuple(
        (name.replace("_", " "), units.usd(cost)) for name, cost in catalogue.unit_costs.model_dump().items()
    )
    return [*tables, View("What work costs the provider", ("unit of work", "provider cost"), 1, costs)]


def as_document(catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue as `ranksim explain plans --json` prints it, in the units of policy files."""
    plain = catalogue.model_dump(mode="json", include={"name", "note", "plans", "add_ons", "unit_costs"})
    for name, terms in plain["plans"].items():
        terms["price"] = terms["price"] if catalogue.knows_price_of(name) else None
    tables = {
        "plans": [{"name": name, **terms} for name, terms in plain["plans"].items()],
        "add_ons": [{"name": name, **terms} for name, terms in plain["add_ons"].items()],
        "unit_costs": [{"unit": unit, "cost": cost} for unit, cost in plain["unit_costs"].items()],
    }
    title = f"The catalogue {catalogue.name}"
    return document(
        "plans",
        title,
        answer=sentence(catalogue),
        notes=[plain["note"]],
        metrics=_metrics(catalogue),
        tables=tables,
    )


def as_yaml(catalogue: Catalogue) -> str:
    """Return the catalogue as a file has it, without add-ons of metrics that none of its plans has."""
    metered = {metric for plan in catalogue.plans.values() for metric in plan.quotas}
    add_ons = {name: add_on for name, add_on in catalogue.add_ons.items() if add_on.metric in metered}
    sold = catalogue.model_copy(update={"add_ons": add_ons})
    return write_yaml(sold.model_dump(mode="json", exclude={"plans": {"__all__": {"name"}}}))


def _metrics(catalogue: Catalogue) -> dict[str, MetricShown]:
    """What is sold and what work costs, as numbers by name: µUSD, slots."""
    metrics: dict[str, MetricShown] = {}
    for name, plan in catalogue.plans.items():
        price = plan.price if catalogue.knows_price_of(name) else None
        metrics[f"{name}.price"] = number("money", price)
        metrics[f"{name}.cost_ceiling"] = number("money", plan.cost_ceiling)
        metrics[f"{name}.slot_limit"] = number("count", plan.slot_limit)
    for name, add_on in catalogue.add_ons.items():
        metrics[f"{name}.price"] = number("money", add_on.price)
        metrics[f"{name}.amount"] = number("count", add_on.amount)
    for name, cost in catalogue.unit_costs.model_dump().items():
        metrics[f"{name}.cost"] = number("money", cost)
    return metrics


def _plans(catalogue: Catalogue) -> View:
    plans = list(catalogue.plans.values())
    terms: dict[str, Callable[[Plan], str]] = {
        "price a month": lambda plan: (
            units.usd(plan.price) if catalogue.knows_price_of(plan.name) else UNKNOWN
        ),
        "ceiling of provider cost a month": lambda plan: units.usd(plan.cost_ceiling),
        "keyword slots": lambda plan: units.count(plan.slot_limit),
        "engine-device pairings": lambda plan: units.count(plan.dimensions.max_engine_devices),
        "geographies": lambda plan: units.count(plan.dimensions.max_geographies),
        "pages of a crawl": lambda plan: units.count(plan.page_cap),
        "questions of an AI scan": lambda plan: units.count(plan.call_cap),
    }
    rows = [(name, *map(term, plans)) for name, term in terms.items()]
    for metric in _in_any(plan.quotas for plan in plans):
        rows.append((metric, *(_quota(plan, metric) for plan in plans)))
    for operation in _in_any(plan.cooldowns for plan in plans):
        rows.append((f"cooldown of {operation}", *(_cooldown(plan, operation) for plan in plans)))
    for name in _in_any(plan.capabilities for plan in plans):
        rows.append((name, *("yes" if name in plan.capabilities else "–" for plan in plans)))
    note = "What the ceiling bounds is the provider's cost of a month's work; the bill is the price."
    return View("Plans", ("", *(plan.name for plan in plans)), 1, tuple(rows), note)


def _in_any(names: Iterable[Iterable[str]]) -> dict[str, None]:
    return dict.fromkeys(chain.from_iterable(names))


def _quota(plan: Plan, metric: str) -> str:
    quota = plan.quotas.get(metric)
    return "no limit" if quota is None else f"{units.count(quota.limit)} a {quota.period}"


def _cooldown(plan: Plan, operation: str) -> str:
    length = plan.cooldown_of(operation)
    return units.duration(length) if length else "–"
