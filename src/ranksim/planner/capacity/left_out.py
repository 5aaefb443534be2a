"""What a workload leaves out of a scenario, as worlds show it: changes over time, clients that draw."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ranksim.core.callers.programs import AnyClient, Python, Schedule
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.policy import Policy
from ranksim.planner.capacity.common import WITHOUT_END
from ranksim.planner.capacity.tracked import lists_by_host
from ranksim.planner.capacity.workload import MONTH, Uncounted
from ranksim.report.progress import nobody
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import Set


def left_out_of(scenario: Scenario, account: str, clients: Collection[str]) -> Uncounted:
    """Return what an account needs for the timeline and for some clients, beyond what it needs without them.

    Two worlds show it, in which no limit of a plan refuses anything but cooldowns do: for a billing month
    from the start on, or as long as the scenario is; with a timeline until a month of 31 days has gone by
    after its last change. In the one without are no domains that the timeline adds; clients in Python of the
    user's, and what the timeline sets, are in neither. Raises BadInput.
    """
    timeline = tuple(each for each in scenario.timeline if not isinstance(each, Set))
    last = max((action.at.after(scenario.start) for action in timeline), default=0)
    from_now = scenario.accounts[account].model_copy(update={"anchor": scenario.start})
    unlimited = scenario.model_copy(
        update={
            "policy": _unlimited(scenario.policy),
            "length": max(scenario.length, last + 3 * MONTH if timeline else MONTH),
            "clients": {
                name: client for name, client in scenario.clients.items() if not isinstance(client, Python)
            },
            "timeline": timeline,
            "accounts": scenario.accounts if timeline else scenario.accounts | {account: from_now},
            "expect": (),
            "warm_up": "none",
        }
    )
    hosts = {
        name: {host for host, _ in lists_by_host(name, spec)} for name, spec in scenario.accounts.items()
    }
    stated = {
        name: _of_hosts(client, hosts) for name, client in unlimited.clients.items() if name not in clients
    }
    counted = {name: client for name, client in stated.items() if client is not None}
    without = unlimited.model_copy(update={"clients": counted, "timeline": ()})
    everything, rest = (run(world, replications=1, progress=nobody) for world in (unlimited, without))

    def more(metric: str) -> int:
        return max(0, round(_of(everything, metric) - _of(rest, metric)))

    quotas = scenario.policy.catalogue.plans[scenario.accounts[account].plan].quotas
    return Uncounted(
        slots=more(f"slots.{account}.max_used"),
        spent=more(f"spend.{account}.max"),
        metrics={metric: more(f"meters.{account}.{metric}.max") for metric in quotas},
    )


def _of_hosts(client: AnyClient, hosts: Mapping[str, Collection[str]]) -> AnyClient | None:
    """A client without the hosts that its account does not begin with, None where it names no others."""
    if not isinstance(client, Schedule) or not isinstance(client.domains, tuple):
        return client
    there = tuple(host for host in client.domains if host in hosts[client.account])
    return client.model_copy(update={"domains": there}) if there else None


def _of(result: Result, metric: str) -> float:
    return result.metric(metric).mean or 0.0


def _unlimited(policy: Policy) -> Policy:
    """A policy under whose plans neither money nor allowances nor slots end."""

    def roomy(plan: Plan) -> Plan:
        quotas = {
            name: quota.model_copy(update={"limit": WITHOUT_END}) for name, quota in plan.quotas.items()
        }
        changes = {"quotas": quotas, "cost_ceiling": WITHOUT_END, "slot_limit": WITHOUT_END}
        return plan.model_copy(update=changes)

    plans = {name: roomy(plan) for name, plan in policy.catalogue.plans.items()}
    catalogue = policy.catalogue.model_copy(update={"plans": plans})
    return policy.model_copy(update={"catalogue": catalogue})
