"""A world: the service, its accounts and everything around them, on one SimPy clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import simpy

from ranksim.core.callers.network import Ways
from ranksim.core.callers.portfolio import AccountSpec, Actor, fixed_id, open_actor
from ranksim.core.callers.programs import Python, program_of
from ranksim.core.callers.steps import Received, Send
from ranksim.core.clock import Micros, iso, month_end, week_end
from ranksim.core.contract.facts import JobKind
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply, StartJob, Step
from ranksim.core.service.service import Service
from ranksim.core.service.state import State
from ranksim.twin.sim import settings, timeline
from ranksim.twin.sim.clients import Credentials, start_python
from ranksim.twin.sim.player import Flight, Player
from ranksim.twin.sim.receivers import SimulatedReceiver
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.simpy_clock import SimpyClock
from ranksim.twin.sim.workers import Ending, Pool, PoolSpec

if TYPE_CHECKING:
    from ranksim.twin.sim.replication import Replication
    from ranksim.twin.sim.statistics import ReplicationTally

UNLIMITED = PoolSpec(capacity="unlimited")
"""The pool of a kind of job for which a scenario names none: every job starts at once."""

NOBODY = Answer(None, "no receiver at this address", 0)
"""What an endpoint gets whose URL belongs to no receiver of the scenario."""


UNSENT = "the endpoint of receiver {} is disabled, and nothing is sent to it from then on"
"""Why an action changes nothing that is about how a receiver answers."""


class Recorder(Protocol):
    """What keeps a trace of a run, when somebody wants one."""

    def watch(self, state: State) -> None:
        """See where names of keys and secrets of endpoints stand."""

    def exchange(
        self,
        now: Micros,
        client: str,
        call: Call,
        reply: Reply,
        *,
        sent: Micros | None = None,
        arrived: Micros | None = None,
        received: Micros | None = None,
    ) -> None:
        """Record a call and its reply, all at `now` unless something else is said."""

    def lost(self, sent: Micros, client: str, call: Call, arrives: bool) -> str:
        """Record a call whose reply its sender never saw, and return its id.

        `arrives` says whether it reaches the service.
        """

    def unseen(self, lost: str, arrived: Micros, reply: Reply) -> None:
        """Record when a lost call, by its id, took effect, and what it was answered."""

    def delivery(self, sent: Micros, answered: Micros, attempt: Attempt, answer: Answer, acted: bool) -> None:
        """Record a webhook attempt; `acted` says whether the receiver took it in."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Another future of the same past: after the instant `at`, draws are those of another `seed`.

    What was drawn by then stays: a next arrival, how long a running job takes. So does what the service
    itself draws: what is invented about sites, and the jitter of webhook retries.
    """

    at: Micros
    seed: int


class World(SimpyClock):
    """A scenario, or the scenario of a file, brought to life.

    Without `env` the world has its own clock of integer µs, which starts at 0; `run` runs it to its end. In a
    caller's `env` it lives beside the caller's processes; `tick` is the µs in one unit of that clock, the
    scenario's start is where it reads 0, and the caller runs the environment. At the end the statistics close
    (`replication`, and `tally` is None from then on), but a caller's environment may run the world further.
    `seed` stands in for the scenario's; a `fork` changes it on the way. Without a `trace`, memory does not
    grow with the length of the run beyond what the service itself keeps. Where the environment stands past
    the start, clients begin there.
    Raises BadInput when the scenario does not hold together, or its timeline has begun before.
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        *,
        seed: int | None = None,
        env: simpy.Environment | None = None,
        tick: int = 1,
        tally: ReplicationTally | None = None,
        trace: Recorder | None = None,
        fork: Fork | None = None,
    ) -> None:
        if tick < 1:
            raise BadInput(f"tick: expected at least 1 µs, found {tick}")
        scenario = scenario_of(scenario)
        super().__init__(env, start=scenario.start, tick=tick)
        scenario.check()
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.tally = tally
        self.trace = trace
        self.service = Service(scenario.policy, seed=self.seed, pooled=JobKind, consulting=True)
        if trace is not None:
            trace.watch(self.service.state)
        self.pools: dict[str, Pool] = {}
        self.actors: dict[str, Actor] = {}
        self.receivers: dict[str, SimulatedReceiver] = {}
        self.endpoints: dict[str, str] = {}
        self._by_endpoint: dict[str, SimulatedReceiver] = {}
        self._by_url: dict[str, SimulatedReceiver] = {}
        self._wakes: set[Micros] = set()
        self._credentials = Credentials()
        self._ways: list[Ways] = []
        self.player = Player(self, self)
        self.replication: Replication | None = None
        self._make_pools()
        for name, account in scenario.accounts.items():
            self.actors[name] = open_actor(self, name, account)
        self._make_receivers()
        self._unsent: list[tuple[str, str, int]] = []
        for index, action in enumerate(scenario.timeline):
            when = action.at.on(scenario.start)
            if when < self.now:
                where = f"timeline[{index}].at: {iso(when)} is past"
                raise BadInput(f"{where}, the environment stands at {iso(self.now)}; make the world sooner")
            self.at(when, self._act, index, action)
        for name, client in scenario.clients.items():
            if isinstance(client, Python):
                start_python(self, name, client)
                continue
            ways = None
            if network := client.network or scenario.network:
                ways = Ways(network.network(), self.seed, f"{name}/network")
                self._ways.append(ways)
            self.player.play(program_of(self, name, client), name, ways)
        if fork is not None:
            self.at(fork.at + 1, self._switch, fork.seed, urgent=True)
        self.at(self.end, self.finish, urgent=True)
        self._sample()
        self._await_reset()
        self._set_wake()

    def __repr__(self) -> str:
        return f"<World of {self.scenario.name!r} at {iso(self.now)}: seed {self.seed}>"

    def _repr_html_(self) -> str:
        from ranksim.report.tables import View, fragment

        state = self.service.state
        jobs = Counter(f"jobs {job.status}" for job in state.jobs.values())
        counts = {"accounts": len(state.accounts), **jobs}
        rows = tuple((name, str(number)) for name, number in counts.items())
        return fragment(repr(self), (), [View("What it holds", ("of", "there are"), 1, rows)])

    @property
    def end(self) -> Micros:
        """The instant at which the scenario ends; nothing of that instant happens any more."""
        return self.scenario.end

    def _switch(self, seed: int) -> None:
        """Have what is drawn from now on be drawn of another seed."""
        self.seed = seed
        for pool in self.pools.values():
            pool.seed = seed
        for receiver in self.receivers.values():
            receiver.switch(seed)
        for ways in self._ways:
            ways.seed = seed

    # Running

    def run(self) -> Replication | None:
        """Run to the end of the scenario; give the statistics, if a tally was kept."""
        ticks, rest = divmod(self.scenario.length, self.tick)
        self.env.run(until=self.scenario.length / self.tick if rest else ticks)
        return self.finish()

    def finish(self) -> Replication | None:
        """Close the statistics at the present instant, unless they are; done by itself at the end."""
        if self.tally is not None:
            for where, name, requests in self._unsent:
                if self.receivers[name].requests == requests:
                    self.note(f"{where}: {UNSENT.format(name)}")
            self.replication = self.tally.finish(self.now, self.service)
            self.tally = None
        return self.replication

    def note(self, text: str) -> None:
        """Leave a remark in the statistics, if they are kept."""
        if self.tally is not None:
            self.tally.note(text)

    def given_up(self, client: str, operation: str, tries: int) -> None:
        """Observe that a client gives a call up, as the rate limit refused the last of its tries."""
        if self.tally is not None:
            self.tally.given_up(self.now, client, operation, tries)

    # The seam between the programs of clients and the service

    def credential(self, account: str, key: str | None) -> str:
        """Return the name by which steps use a key of an account, or without a key its web app."""
        return self._credentials.add(self.actors[account], key)

    def call_of(self, send: Send, client: str) -> Call:
        """Return a client's call as the service takes it."""
        return self._credentials.call_of(send, client)

    def answer(self, send: Send, client: str, now: Micros) -> Received:
        """Make a client's call now, and answer it at once."""
        reply = self._answered(now, self._credentials.call_of(send, client), client, send.reads)
        return Received(reply.status, reply.body, reply.headers, now, now)

    def effect(self, flight: Flight) -> Reply:
        """Let a call that travelled take effect now."""
        reply = self._handle(flight.call, flight.send.reads)
        if self.tally is not None:
            self.tally.call(self.now, flight.run.client, flight.call, reply)
        if self.trace is not None and flight.line:
            self.trace.unseen(flight.line, self.now, reply)
        self._set_wake()
        return reply

    def written(self, reply: Reply) -> None:
        """Note that a reply is on its way; its Idempotency-Key is no longer in flight (U92)."""
        self.service.written(reply, self.now)

    def render(self, flight: Flight, reply: Reply) -> Reply:
        """Return a reply as it travels: as it is."""
        return reply

    def received(self, flight: Flight, rendered: Reply) -> Received:
        """Record a call that travelled and its reply, which arrived now."""
        now, client = self.now, flight.run.client
        if self.tally is not None:
            self.tally.answered(now, client, now - flight.sent)
        if self.trace is not None:
            times = {"sent": flight.sent, "arrived": flight.arrived, "received": now}
            self.trace.exchange(now, client, flight.call, rendered, **times)
        return Received(rendered.status, rendered.body, rendered.headers, flight.sent, now)

    def lost(self, flight: Flight) -> None:
        """Record a call whose sender stopped listening now."""
        if self.tally is not None:
            self.tally.unanswered(self.now, flight.run.client)
        if self.trace is not None:
            flight.line = self.trace.lost(flight.sent, flight.run.client, flight.call, flight.arrives)
            if flight.reply is not None:
                self.trace.unseen(flight.line, flight.arrived, flight.reply)

    def listen(self, script: str) -> str:
        """Return "": the receivers of a scenario are its own."""
        return ""

    def call(self, call: Call, client: str = "") -> Reply:
        """Make a call now on behalf of a client, and answer it at once, without a network."""
        return self._answered(self.now, call, client)

    def _answered(self, now: Micros, call: Call, client: str, reads: bool = True) -> Reply:
        step = self.service.handle(call, now, reads=reads or self.trace is not None)
        reply = step.reply
        self.follow(step)
        if self.tally is not None:
            self.tally.call(now, client, call, reply)
        if self.trace is not None:
            self.trace.exchange(now, client, call, reply)
        if reply.flight:
            self.service.written(reply, now)
        self._set_wake()
        return reply

    def stated_account(self, account: str) -> AccountSpec:
        """Return what the scenario states of an account."""
        return self.scenario.accounts[account]

    def owner_of(self, receiver: str) -> Actor:
        """Return the account whose endpoint a receiver is behind."""
        return self.actors[self.scenario.receivers[receiver].account]

    def app_call(
        self, actor: Actor, operation: str, body: Body | None, /, *, client: str = "", **path: str
    ) -> Reply:
        """Do in the web app, without key or rate limit, what the API could do too.

        Counted under `client`, or not at all without one.
        """
        call = Call(operation, path=path, body=body, surface="app")
        call.account, call.environment = actor.account, actor.environment
        return self.call(call, client) if client else self._handle(call)

    def _handle(self, call: Call, reads: bool = True) -> Reply:
        step = self.service.handle(call, self.now, reads=reads or self.trace is not None)
        self.follow(step)
        return step.reply

    def follow(self, step: Step) -> None:
        """Observe what became true, and do what the service asks for."""
        if step.events and self.tally is not None:
            self.tally.observe(step.events)
        for task in step.tasks:
            if isinstance(task, StartJob):
                self.pools[task.kind].add(task)
            else:
                self._attempt(task)

    def _wake(self, due: Micros) -> None:
        self._wakes.discard(due)
        self.follow(self.service.advance(self.now))
        self._set_wake()

    def _set_wake(self) -> None:
        """See to it that the service is woken when its next work falls due."""
        due = self.service.next_due()
        if due is not None and due not in self._wakes:
            self._wakes.add(due)
            self.at(due, self._wake, due, urgent=True)

    # Jobs

    def _make_pools(self) -> None:
        observers = self._job_started, self._job_ended, self._pool_changed
        for kind in map(str, JobKind):
            pool = self.pools[kind] = Pool(kind, spec_of(self.scenario, kind), self, self.seed, *observers)
            if kind in self.scenario.pools:
                self._pool_changed(pool)

    def _job_started(self, task: StartJob) -> None:
        self.follow(self.service.started(task.job, self.now))

    def _job_ended(self, task: StartJob, ending: Ending) -> None:
        outcome = "failed" if ending.error else "done"
        cost = round(task.estimate * ending.factor)
        self.follow(self.service.ended(task.job, outcome, self.now, cost=cost, error=ending.error or None))
        self._set_wake()

    def _pool_changed(self, pool: Pool) -> None:
        if self.tally is not None:
            self.tally.pool(self.now, pool.kind, pool.busy, pool.capacity, pool.waiting)

    # Webhooks

    def _make_receivers(self) -> None:
        timeout = self.scenario.policy.facts.webhook_timeout
        for name, spec in self.scenario.receivers.items():
            receiver = SimulatedReceiver(name, spec, start=self.start, timeout=timeout, seed=self.seed)
            actor = self.actors[spec.account]
            body = {
                "url": receiver.url,
                "event_types": list(spec.event_types),
                "domain_id": actor.hosts[spec.domain] if spec.domain is not None else None,
            }
            with fixed_id(self.service, f"receivers.{name}.id", spec.id, self.service.state.endpoints):
                reply = self.app_call(actor, "webhooks.create", body)
            if reply.status >= 400 or reply.body is None:
                detail = (reply.body or {}).get("detail", "")
                raise BadInput(f"receivers.{name}: the service refused the endpoint: {detail}")
            endpoint = reply.body["data"]["id"]
            self.receivers[name] = self._by_endpoint[endpoint] = receiver
            self._by_url.setdefault(receiver.url, receiver)
            self.endpoints[name] = endpoint
            if spec.secret:
                self.service.state.endpoints[endpoint].secret = spec.secret
            if self.tally is not None:
                self.tally.endpoint_names[endpoint] = name
                self.tally.outages[endpoint] = receiver.outages

    def _attempt(self, task: Attempt) -> None:
        receiver = self._by_endpoint.get(task.endpoint) or self._by_url.get(task.url)
        answer, acted, delay = receiver.answer(task, self.now) if receiver else (NOBODY, False, 0)
        self.after(delay, self._attempted, task, answer, acted, self.now, urgent=True)

    def _attempted(self, task: Attempt, answer: Answer, acted: bool, sent: Micros) -> None:
        now = self.now
        step = self.service.attempted(task.attempt, answer, now)
        if self.tally is not None:
            self.tally.attempt(now, task, answer, acted)
        if self.trace is not None:
            self.trace.delivery(sent, now, task, answer, acted)
        self.follow(step)
        self._set_wake()

    # Timeline and samples

    def _act(self, index: int, action: timeline.Action) -> None:
        """Do an action, and note where it changes nothing."""
        self.follow(self.service.advance(self.now))
        before = self._standing(action)
        timeline.apply(self, action)
        where = f"timeline[{index}] ({action.do}, {iso(self.now)}) changes nothing"
        if before is not None and self._standing(action) == before:
            up = isinstance(action, timeline.ReceiverUp)
            self.note(f"{where}: {'no receiver_down came before it' if up else 'it is so already'}")
        elif (name := timeline.behaviour_of(action)) and not self._is_enabled(name):
            self._unsent.append((where, name, self.receivers[name].requests))
        self._set_wake()

    def _standing(self, action: timeline.Action) -> object:
        """What an action changes, as it stands; None where that is not looked at."""
        match action:
            case timeline.Set():
                return self.scenario
            case timeline.ResizePool():
                return (self.pools[action.pool].capacity,)
            case timeline.ReceiverDown() | timeline.ReceiverUp():
                return self.receivers[action.receiver].down
            case timeline.EditEndpoint() | timeline.EnableEndpoint():
                endpoint = self.service.state.endpoints.get(self.endpoints[action.receiver])
                return endpoint and (endpoint.enabled, list(endpoint.event_types))
            case timeline.ChangePlan() | timeline.SetStatus() | timeline.SetAddOn():
                account = self.service.state.accounts[self.actors[action.account].account]
                return (
                    account.plan,
                    account.status,
                    {name: count for name, count in account.add_ons.items() if count},
                )
        return None

    def _is_enabled(self, receiver: str) -> bool:
        endpoint = self.service.state.endpoints.get(self.endpoints[receiver])
        return endpoint is not None and endpoint.enabled

    def change_faults(self, action: timeline.OfFaults) -> None:
        """Do nothing: faults befall what comes over HTTP; `scenario_notes` says so of the result."""

    def set(self, action: timeline.Set) -> None:
        """Go on with a value of the scenario set."""
        before, self.scenario = self.scenario, settings.after(self.scenario, action)
        policy = self.scenario.policy
        if policy != before.policy:
            self.service.change_policy(policy=policy, now=self.now)
            if self.tally is not None:
                self.tally.catalogue = policy.catalogue
        for kind, pool in self.pools.items():
            pool.change(spec_of(self.scenario, kind))
        for name, receiver in self.receivers.items():
            receiver.spec, receiver.timeout = self.scenario.receivers[name], policy.facts.webhook_timeout

    def _sample(self) -> None:
        if self.tally is not None:
            self.tally.sample(self.now, self.service)
            self.after(self.scenario.sample_every, self._sample, urgent=True)

    def _await_reset(self) -> None:
        """Be there when the next month or week of an account ends, in which what it used is reset."""
        anchors = {account.books.anchor for account in self.service.state.accounts.values()}
        resets = {month_end(anchor, self.now) for anchor in anchors}
        resets.add(week_end(self.now, self.service.policy.assumptions.week_offset))
        self.at(min(resets), self._note_peaks, urgent=True)

    def _note_peaks(self) -> None:
        """Let the tally look at what was used until now, when it is reset."""
        if self.tally is not None:
            self.tally.note_peaks(self.now, self.service)
            self._await_reset()


def spec_of(scenario: Scenario, kind: Any) -> PoolSpec:
    """Return what the pool of a kind of job is, with what is left out filled in from the catalogue."""
    spec, catalogue = scenario.pools.get(kind, UNLIMITED), scenario.policy.catalogue
    changes: dict[str, Any] = {}
    if spec.duration is None and not spec.per_unit:
        changes["duration"] = catalogue.job_durations[kind]
    if spec.failure_rate is None:
        changes["failure_rate"] = catalogue.job_failure_rates[kind] / 1000
    return spec.model_copy(update=changes)
