"""A scenario as a fake serves it: opened or simulated first, and its timeline, which goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ranksim.core.callers.fault_rules import FaultRule, FaultTarget
from ranksim.core.callers.portfolio import AccountSpec, Actor
from ranksim.core.clock import DISTANT_FUTURE, Micros, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply, Step
from ranksim.core.service.service import Service
from ranksim.twin.sim.misfits import in_time
from ranksim.twin.sim.opening import opened_at, timeline_state
from ranksim.twin.sim.pending import stated_receiver, with_pending
from ranksim.twin.sim.receivers import SimulatedReceiver
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.settings import after, in_order
from ranksim.twin.sim.timeline import Action, AddFault, ClearFaults, OfFaults, ResizePool, Set, apply
from ranksim.twin.sim.workers import Pool

NOT_SERVED = {
    Set: "a fake serves one policy, and its receivers are programs of their own",
    ResizePool: "a fake has no pools",
}
"""What no timeline does while it is served, and why."""


def _actions_since(scenario: Scenario, since: Micros) -> list[tuple[Micros, int, Action]]:
    """Return what the timeline does from an instant on: when, where it stands there, and what."""
    placed = [(each.at.on(scenario.start), index, each) for index, each in enumerate(scenario.timeline)]
    return sorted((each for each in placed if each[0] >= since), key=lambda each: each[:2])


def faults_at(scenario: Scenario, now: Micros) -> list[tuple[Micros, FaultRule]]:
    """Return the faults that are in force before the timeline acts at an instant, and since when."""
    faults = [(scenario.start, rule) for fault in scenario.faults for rule in fault.rules()]
    for action in in_time(scenario):
        if (at := action.at.on(scenario.start)) >= now:
            break
        if isinstance(action, AddFault):
            faults += [(at, rule) for rule in action.rules()]
        elif isinstance(action, ClearFaults):
            faults.clear()
    return [(since, rule) for since, rule in faults if rule.lasts is None or now < since + rule.lasts]


class ServedTimeline:
    """A scenario's timeline from the instant `since` on, done to the service of a fake when it falls due.

    Receivers are down as the scenario says: an attempt meets what `when_down` says, and is not sent; all
    others are real. `saved` is what another returned. Raises BadInput for what cannot be done while it is
    served.
    """

    def __init__(self, scenario: Scenario, since: Micros, saved: Mapping[str, Any]) -> None:
        self.scenario = scenario
        self._actions = _actions_since(scenario, since)
        for at, index, action in self._actions:
            if why := NOT_SERVED.get(type(action)):
                raise BadInput(
                    f"{scenario.name}: timeline[{index}]: {action.do} at {iso(at)} cannot be done while "
                    f"it is served, as {why}; leave it out, or simulate up to later than that (--until)"
                )
        self._done: int = saved["done"]
        self.actors = {name: Actor(**fields) for name, fields in saved["actors"].items()}
        self.endpoints: dict[str, str] = dict(saved["endpoints"])
        self.pools: dict[Any, Pool] = {}
        timeout = scenario.policy.facts.webhook_timeout
        self.receivers = {
            name: SimulatedReceiver(name, spec, start=scenario.start, timeout=timeout, seed=scenario.seed)
            for name, spec in scenario.receivers.items()
        }
        for name in saved["down"]:
            self.receivers[name].take_down(since)
        self._behind = {endpoint: self.receivers[name] for name, endpoint in self.endpoints.items()}
        self._steps: list[Step] = []
        self.service, self._faults = cast(Service, None), cast(FaultTarget, None)
        self.now, self.due = since, self._next()

    def _next(self) -> Micros:
        return self._actions[self._done][0] if self._done < len(self._actions) else DISTANT_FUTURE

    def act(self, service: Any, faults: FaultTarget, now: Micros) -> tuple[list[Step], dict[str, Any]]:
        """Do what is due to a service and its faults; return what came of it, and what it was.

        What the service refuses, since others have changed the world meanwhile, is told as `refused`.
        """
        _, _, action = self._actions[self._done]
        self._done += 1
        self.due, self.service, self.now, self._steps = self._next(), service, now, []
        self._faults = faults
        secret = {"key"} if isinstance(action, AddFault) else set[str]()
        what = action.model_dump(mode="json", exclude={"at", *secret}, exclude_defaults=True)
        try:
            apply(self, action)
        except BadInput as error:
            what["refused"] = str(error)
        return self._steps, what

    def answer(self, attempt: Attempt, now: Micros) -> Answer | None:
        """Return what a sender sees of a receiver that is down, or None: it is asked."""
        receiver = self._behind.get(attempt.endpoint)
        return receiver.answer(attempt, now)[0] if receiver is not None and receiver.is_down(now) else None

    def saved(self) -> dict[str, Any]:
        """Return where it stands, as JSON."""
        down = [name for name, receiver in self.receivers.items() if receiver.down]
        return timeline_state(self.actors, self.endpoints, down, self._done)

    def lay_over(self, stated: dict[str, Any], now: Micros) -> dict[str, Any]:
        """Return a scenario of the world as it stands at an instant, with what happens to it from then on."""
        names = {id: name for name, id in self.endpoints.items()}
        receivers, timeline = (
            {},
            [
                action | {"receiver": names.get(action["receiver"], action["receiver"])}
                for action in stated["timeline"]
            ],
        )
        for id, endpoint in stated["receivers"].items():
            name = names.get(id, id)
            receivers[name] = endpoint
            if name in self.receivers:
                receiver = self.receivers[name]
                receivers[name] = endpoint | stated_receiver(receiver.spec, self.scenario.start, now)
                if receiver.down:
                    timeline.append({"at": iso(now), "do": "receiver_down", "receiver": name})
        pending = ((at, action) for at, _, action in self._actions[self._done :])
        stated = {**stated, "receivers": receivers, "timeline": timeline}
        return with_pending(stated, self.scenario, now, pending, self.actors)

    # What actions are done to

    def change_faults(self, action: OfFaults) -> None:
        """Put faults in force, or end all."""
        if isinstance(action, ClearFaults):
            self._faults.clear()
            return
        for rule in action.rules():
            self._faults.add(rule, self.now)

    def app_call(
        self, actor: Actor, operation: str, body: Body | None, /, *, client: str = "", **path: str
    ) -> Reply:
        """Make a call of the web app on behalf of an account."""
        call = Call(
            operation,
            path=path,
            body=body,
            surface="app",
            account=actor.account,
            environment=actor.environment,
        )
        step = self.service.handle(call, self.now)
        self.service.written(step.reply, self.now)
        self._steps.append(step)
        return step.reply

    def set(self, action: Set) -> None:
        """Never asked: refused at the start."""

    def stated_account(self, account: str) -> AccountSpec:
        """Return what the scenario states of an account."""
        return self.scenario.accounts[account]

    def owner_of(self, receiver: str) -> Actor:
        """Return the account whose endpoint a receiver is behind."""
        return self.actors[self.scenario.receivers[receiver].account]


class ScenarioOrigin:
    """How a fake begins that a scenario describes, simulated up to `until` (µs) first if that is given.

    What a worker pool had taken in is run by the fake from then on. Raises BadInput, also where the timeline
    wants what cannot be done while it is served.
    """

    def __init__(self, scenario: Scenario, until: Micros | None = None) -> None:
        if until is not None and not scenario.start < until <= scenario.end:
            raise BadInput(f"until: expected an instant up to {iso(scenario.end)}, the end of the scenario")
        self.source: tuple[str, Micros | None] = (scenario.model_dump_json(), until)
        self.scenario, self.seed = scenario, scenario.seed
        self.start = scenario.start if until is None else until
        self.faults: Sequence[tuple[Micros, FaultRule]] = faults_at(scenario, self.start)
        for _, action in in_order(scenario):
            if action.at.on(self.scenario.start) < self.start:
                scenario = after(scenario, action)
        self.policy = scenario.policy
        self.timeline(timeline_state({}, {}))
        self._opened: tuple[bytes, dict[str, str], dict[str, Any]] | None = None

    def open(self) -> tuple[Service, dict[str, str], ServedTimeline]:
        """Return a service, the first key of each environment, and what happens from then on."""
        if self._opened is None:
            opened = opened_at(self.scenario, self.source[1])
            self._opened = opened.service.save(), opened.keys, opened.standing
        saved, keys, stands = self._opened
        return Service.restore(saved, self.policy), dict(keys), self.timeline(stands)

    def timeline(self, saved: Mapping[str, Any]) -> ServedTimeline:
        """Return what happens from where it was saved on."""
        return ServedTimeline(self.scenario, self.start, saved)
