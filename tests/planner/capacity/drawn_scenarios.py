"""Scenarios of one account whose domains differ, drawn: what the questions of planners must agree about.

A big client, which is the first domain, and groups of smaller ones; two teams, each with a key of its own;
jobs by several calendars, and a timeline. Rate limits are drawn small, so that few domains meet them.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

import ranksim as rs
from ranksim.core.callers.portfolio import AccountSpec
from ranksim.core.callers.stated import stated_scenario
from ranksim.core.contract.located import Located
from ranksim.core.service.service import Service
from ranksim.planner.capacity.workload import MONTH
from ranksim.twin.sim.opening import open_world

ACCOUNT = "acme"
PAIRINGS = ("google/desktop", "google/mobile", "bing/desktop")
HOURS = ("01:00", "02:00", "14:00")


@st.composite
def _groups(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The portfolios of an account: of one big domain, and up to three of smaller ones."""
    big = {"domains": 1, "keywords": draw(st.integers(1, 4)) * 100, "scans": [draw(_scans())]}
    smaller = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "domains": st.integers(1, 6),
                    "keywords": st.integers(0, 40),
                    "scans": st.lists(_scans(), min_size=1, max_size=2),
                }
            ),
            min_size=1,
            max_size=3,
        )
    )
    groups = [big, *smaller]
    for number, group in enumerate(groups):  # hosts of their own, as portfolios by count are named alike
        group["domains"] = [f"site{one}.group{number}.example" for one in range(group["domains"])]
    return groups


def _scans() -> st.SearchStrategy[dict[str, Any]]:
    return st.integers(1, 3).map(lambda number: {"engine_devices": list(PAIRINGS[:number])})


@st.composite
def _schedules(draw: st.DrawFn) -> dict[str, Any]:
    """Rank runs of all domains, and up to three calendars beside them, on the keys of two teams."""

    def schedule(**given: Any) -> dict[str, Any]:
        return {
            "kind": "schedule",
            "account": ACCOUNT,
            "key": draw(st.sampled_from(["one", "two"])),
            "spread": draw(st.sampled_from(["0s", "0s", "30s", "5m"])),
            "max_tries": draw(st.sampled_from([2, 5])),
            "dry_run_first": draw(st.integers(0, 4)) == 0,
            **given,
        }

    clients = {"ranks": schedule(job="rank_run", every="day", at=draw(st.sampled_from(HOURS)))}
    others = st.sampled_from(["big", "crawls", "again", "scans", "fast"])
    for name in sorted(draw(st.sets(others, max_size=3))):
        at = draw(st.sampled_from(HOURS))
        match name:
            case "big":
                first = draw(st.sampled_from([1, ["site0.group0.example"]]))
                clients[name] = schedule(job="rank_run", every="12h", at="08:00", domains=first)
            case "fast":
                clients[name] = schedule(job="rank_run", every="2h", at="00:30", domains=2)
            case "crawls" | "again":
                clients[name] = schedule(job="crawl", every="week", weekday="monday", at=at)
                if name == "again":
                    clients[name]["every"] = draw(st.sampled_from(["day", "week"]))
                    clients[name]["weekday"] = draw(st.sampled_from(["monday", "friday"]))
            case "scans":
                clients[name] = schedule(job="ai_scan", every="day", at=at, domains=draw(st.integers(1, 3)))
    last = max(clients)
    bounds = draw(
        st.sampled_from([{}, {}, {"starts": "10d"}, {"stops": "10d"}, {"starts": "2026-03-09T00:00:00Z"}])
    )
    clients[last] |= bounds
    return clients


DOMAINS = st.one_of(
    st.fixed_dictionaries(
        {
            "at": st.sampled_from(["4d", "10d"]),
            "do": st.just("add_domains"),
            "account": st.just(ACCOUNT),
            "domains": st.integers(1, 3),
        }
    ),
    st.just({"at": "12d", "do": "remove_domains", "account": ACCOUNT, "domains": 1}),
)
"""What changes how many domains there are, each by one or a few."""

TIMELINES = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.sampled_from(["3d", "9d", "20d"]),
            "do": st.just("add_keywords"),
            "account": st.just(ACCOUNT),
            "count": st.integers(1, 50),
        }
    ),
    max_size=2,
)

SETTINGS = st.sampled_from(
    [
        ("policy.facts.rates.expensive", 1),
        ("policy.catalogue.plans.agency.cost_ceiling", "1 USD"),
        ("policy.catalogue.plans.agency.quotas.keyword_brief_refreshes.limit", 0),
        ("policy.catalogue.plans.agency.price", "3 USD"),
        ("policy.assumptions.cap", "refuse"),
    ]
)
"""What a timeline may set, and to what."""


@st.composite
def scenarios(draw: st.DrawFn, timeline: bool = True, domains: bool = False) -> rs.Scenario:
    """Draw a scenario of 31 days from the first of a month; the account is on the plan agency.

    With `domains` its timeline may add and remove some.
    """
    groups = draw(_groups())
    data = {
        "name": "drawn",
        "start": "2026-03-01T00:00:00Z",
        "length": "31d",
        "policy": {"facts": {"rates": {"expensive": draw(st.sampled_from([2, 5, 20]))}}},
        "accounts": {
            ACCOUNT: {
                "plan": "agency",
                "keys": ["one", "two"],
                "portfolio": groups[0],
                "further": groups[1:],
            }
        },
        "clients": draw(_schedules()),
        "pools": {
            "rank_run": {"capacity": "unlimited", "duration": {"constant": "4m"}, "failure_rate": 0},
            "crawl": {"capacity": "unlimited", "duration": {"constant": "20m"}, "failure_rate": 0},
            "ai_scan": {"capacity": "unlimited", "duration": {"constant": "5m"}, "failure_rate": 0},
        },
        "timeline": [
            *(draw(TIMELINES) if timeline else []),
            *(draw(st.lists(DOMAINS, max_size=2, unique_by=lambda change: change["do"])) if domains else []),
        ],
    }
    return rs.Scenario.read(Located("drawn", data, {}))


def simulated(scenario: rs.Scenario, **changes: Any) -> rs.Result:
    """Run a drawn scenario as it is, for 31 days."""
    return rs.run(scenario.replace(length=MONTH, **changes), seed=1)


def exported(scenario: rs.Scenario, service: Service | None = None) -> rs.Scenario:
    """The scenario with its accounts as an export of its world has them: each domain as a site.

    That is as it begins, or as a service of it is.
    """
    if service is None:
        service = Service(scenario.policy, scenario.seed)
        open_world(service, scenario)
    stated = stated_scenario(service.state, scenario.policy, scenario.start)
    accounts = {
        name: AccountSpec.model_validate_json(json.dumps(one)) for name, one in stated["accounts"].items()
    }
    return scenario.model_copy(update={"accounts": accounts})
