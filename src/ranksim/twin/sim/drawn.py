"""What is drawn in the worlds of a scenario. Where nothing is, one replication is like any other.

It is told by what is known to draw nothing: rank runs by the calendar, started at once or spread evenly, that
obey the rate limit; polls of lists; pools whose jobs take one time and never fail; receivers that always
answer in one time. All else counts as drawn: the sizes of sites and of scans, for example, and the jitter of
webhook retries, are. Slots are not where clients do nothing but run jobs by the calendar and read.
"""

from ranksim.core.callers.programs import AnyClient, Poller, Schedule
from ranksim.core.contract.facts import JobKind
from ranksim.core.service.operations import is_read_only
from ranksim.core.service.routes import path_parameters
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.settings import stretches
from ranksim.twin.sim.timeline import ReceiverDown
from ranksim.twin.sim.world import spec_of

STATED = "invoice."
"""How metrics begin that the input states: prices of plans and add-ons, which change by the calendar."""

FAMILIES = ("", "slots.", STATED)
"""How metrics begin that are asked for together: all of them, the levels of slots, and prices."""


def is_drawn(scenario: Scenario, metric: str) -> bool:
    """Return whether a metric of a world may depend on its seed; False only where it cannot."""
    clients = scenario.clients.values()
    if metric.startswith(STATED):
        return False
    if metric.startswith("slots."):
        return not all(isinstance(client, Schedule) or _only_reads(client) for client in clients)
    return (
        scenario.network is not None
        or any(isinstance(action, ReceiverDown) for action in scenario.timeline)
        or any(_draws(client) for client in clients)
        or any(map(_varies, stretches(scenario)))
    )


def _only_reads(client: AnyClient) -> bool:
    return client.operations is not None and is_read_only(client.operations)


def _draws(client: AnyClient) -> bool:
    match client:
        case Schedule(job="rank_run"):
            drawn = client.spread > 0 and client.spread_by == "draws"
        case Poller():
            drawn = client.slow_down is not None or bool(path_parameters(client.operation))
        case _:
            return True
    return drawn or client.network is not None or client.on_limit == "backoff"


def _may_fail(receiver: ReceiverSpec, timeout: int) -> bool:
    """Whether a webhook may not be acknowledged at once, and be tried again after a time that is drawn."""
    falters = receiver.script is not None or receiver.outages or receiver.mtbf is not None
    slow = receiver.latency.kind != "constant" or receiver.latency.durations[0] > timeout
    return bool(falters) or slow or not 200 <= receiver.status < 300


def _varies(scenario: Scenario) -> bool:
    """Whether how jobs or receivers fare is drawn, as the scenario stands."""
    pool, timeout = spec_of(scenario, JobKind.RANK_RUN.value), scenario.policy.facts.webhook_timeout
    factor = pool.cost_factor
    return (
        (pool.duration is not None and pool.duration.kind != "constant")
        or bool(pool.failure_rate)
        or (factor is not None and factor.low != factor.high)
        or any(_may_fail(receiver, timeout) for receiver in scenario.receivers.values())
    )
