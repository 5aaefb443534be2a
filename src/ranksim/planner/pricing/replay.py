"""One side of a back-test: a recording called again at a service that sells one catalogue."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Self

from pydantic import ValidationError, model_validator

from ranksim.core import draws
from ranksim.core.callers.portfolio import AccountSpec, Actor, PortfolioSpec, ScanSpec, open_actor, set_used
from ranksim.core.callers.recordings import IdTranslation
from ranksim.core.callers.request_factory import Item, RequestFactory
from ranksim.core.callers.steps import Send
from ranksim.core.clock import DAY, DISTANT_FUTURE, Micros, iso
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Instant
from ranksim.core.contract.views import created_by
from ranksim.core.draws import Purpose
from ranksim.core.errors import BadInput
from ranksim.core.service.administration import LIMITS
from ranksim.core.service.bodies import DomainBody
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply, StartJob, Task
from ranksim.core.service.jobs import DONE, FAILED
from ranksim.core.service.service import Service
from ranksim.planner.fleet.offers import durations_of
from ranksim.planner.fleet.requests import JOB_DURATION, drawn_below, stream
from ranksim.planner.pricing.recording import REFERENCES, RecordedCall, Recording, made_by

LONG_BEFORE = 62 * DAY
"""How long before the recording accounts get what they own, so that no allowance of its months is touched."""

RESOURCES = ("domains", "keyword_lists", "keywords", "labels", "competitors", "scans")
"""What a portfolio holds, by the names of an account's fields."""

SERIALS = 1 << 24
"""How many ids an account's portfolio has to itself, by its number: the same whoever else is there."""


@dataclass(slots=True)
class ReplayOutcome:
    """What became of one call: status, code of a refusal, provider cost (µUSD), job that it began."""

    status: int
    code: str
    cost: int = 0
    job: str = ""


class RecordedAccount(AccountSpec):
    """An account as in a scenario; when it joined and left, between which alone it is billed.

    Its billing months begin where it joined, unless there is another `anchor`.
    """

    joined: Instant | None = None
    left: Instant | None = None

    @model_validator(mode="after")
    def _left_later(self) -> Self:
        if self.joined is not None and self.left is not None and self.left <= self.joined:
            raise ValueError(
                f"left: expected an instant after it joined, {iso(self.joined)}, found {iso(self.left)}"
            )
        return self


def stay_of(spec: AccountSpec) -> tuple[Micros, Micros]:
    """Return when an account joined and left: long ago and in the far future where nobody says."""
    if not isinstance(spec, RecordedAccount):
        return 0, DISTANT_FUTURE
    return spec.joined or 0, DISTANT_FUTURE if spec.left is None else spec.left


def specs_of(
    recording: Recording, described: Mapping[str, AccountSpec], keywords: int
) -> dict[str, AccountSpec]:
    """Return the accounts of a recording as they are `described`.

    Of others nothing is known but what their calls name: no plan, and a portfolio with room for that. Hosts
    go by the numbers of accounts, so that what is drawn for a domain does not rest on names. Raises BadInput
    for an account that calls before it joined or after it left.
    """
    specs = {name: _anchored(spec) for name, spec in described.items()}
    stays = {name: stay_of(spec) for name, spec in specs.items()}
    for call in recording.calls:
        joined, left = stays.get(call.account, (0, DISTANT_FUTURE))
        if not joined <= call.at < left:
            name, bound = ("joined", joined) if call.at < joined else ("left", left)
            raise BadInput(
                f"accounts.{call.account}.{name}: {iso(bound)}, but a call was recorded at {iso(call.at)}; "
                "correct it, or leave it out"
            )
    return {
        name: _numbered(specs[name], name, number)
        if name in specs
        else AccountSpec(plan="", portfolio=_portfolio_for(recording, name, keywords))
        for name, number in recording.numbers.items()
    }


def _anchored(spec: AccountSpec) -> AccountSpec:
    joined, _ = stay_of(spec)
    return spec.model_copy(update={"anchor": joined}) if joined and spec.anchor is None else spec


def hosts_for(account: int, count: int, noun: str = "site") -> tuple[str, ...]:
    """Return hosts for the account of that number: its name changes nothing that is drawn."""
    return tuple(f"{noun}{number}.account{account}.example" for number in range(1, count + 1))


def _numbered(spec: AccountSpec, name: str, number: int) -> AccountSpec:
    """Return an account whose hosts go by its number, and without keys, which its calls tell."""
    old = spec.hosts(name)
    hosts = hosts_for(number, len(old))
    left = iter(hosts)

    def placed(portfolio: PortfolioSpec) -> PortfolioSpec:
        domains = tuple(islice(left, len(portfolio.hosts(name))))
        return portfolio.model_copy(update={"domains": domains})

    new: dict[str, object] = {"keys": ()}
    new["portfolio"] = None if spec.portfolio is None else placed(spec.portfolio)
    new["further"] = tuple(placed(portfolio) for portfolio in spec.further)
    new["sites"] = tuple(site.model_copy(update={"host": next(left)}) for site in spec.sites)
    if spec.used is not None:
        by_host = dict(zip(old, hosts, strict=True))
        cooldowns = (
            cooling.model_copy(update={"domain": by_host.get(cooling.domain, cooling.domain)})
            for cooling in spec.used.cooldowns
        )
        new["used"] = spec.used.model_copy(update={"cooldowns": tuple(cooldowns)})
    return spec.model_copy(update=new)


def with_numbered_hosts(recording: Recording) -> Recording:
    """Return a recording in which the domains that calls make have hosts by the number of their account.

    The same host is the same again, and what is no host stays what it is.
    """
    hosts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    calls = []
    for call in recording.calls:
        host = _host_made(call)
        if host:
            own, number = hosts[call.account], recording.numbers[call.account]
            if host not in own:
                own[host] = hosts_for(number, 1 + len(own), "new")[-1]
            call = replace(call, body={**(call.body or {}), "host": own[host]})
        calls.append(call)
    return replace(recording, calls=calls) if hosts else recording


def _host_made(call: RecordedCall) -> str:
    """Return the host of the domain that a call asks for, "" where it asks for none, or for no host."""
    if call.operation != "domains.create" or call.body is None:
        return ""
    try:
        return DomainBody.model_validate(call.body).host
    except ValidationError:
        return ""


def _portfolio_for(recording: Recording, account: str, keywords: int) -> PortfolioSpec:
    counts = {resource: len(recording.before.get((account, resource), ())) for resource in RESOURCES}
    domains = max(1, counts["domains"])
    each = {resource: -(-count // domains) for resource, count in counts.items()}
    return PortfolioSpec(
        domains=hosts_for(recording.numbers[account], domains),
        lists=max(1, each["keyword_lists"]),
        keywords=max(keywords, each["keywords"]),
        scans=(ScanSpec(),) * max(1, each["scans"]),
        labels=each["labels"],
        competitors=each["competitors"],
    )


class ReplayedService:
    """A service with the accounts of a recording. What they own is made long before, with all limits waived:
    who is put on a smaller plan keeps what there is, and cannot add to it. What they have used is so as the
    recording begins; `start` says when a larger one did, of which this is a part.
    """

    def __init__(
        self,
        recording: Recording,
        specs: Mapping[str, AccountSpec],
        policy: Policy,
        seed: int,
        start: Micros | None = None,
    ) -> None:
        self.recording = recording
        self.service = Service(policy, seed, pooled=JobKind)
        self.durations = durations_of(policy).tolist()
        self.running: list[tuple[Micros, int, str, bool, int | None]] = []
        self.recorded: RecordedCall | None = None
        self.asking = (0, 0)
        self.asked: Counter[str] = Counter()
        self.start = recording.start if start is None else start
        self.now = max(0, self.start - LONG_BEFORE)
        self.ids: defaultdict[str, IdTranslation] = defaultdict(IdTranslation)
        self.tokens: dict[tuple[str, str], str] = {}
        self.factories: dict[str, RequestFactory] = {}
        self.calls: dict[str, list[RecordedCall]] = {}
        for call in recording.calls:
            self.calls.setdefault(call.account, []).append(call)
        self.service.waive(LIMITS, self.now)
        self.actors: dict[str, Actor] = {}
        for name in sorted(specs, key=recording.numbers.__getitem__):
            self._number_from(recording.numbers[name])
            self.actors[name] = self._open(name, specs[name])
        self._number_from(1 + max(recording.numbers.values()))
        self.service.waive((), self.now)
        for name, spec in specs.items():
            if spec.used is not None:
                self._until(self.start)
                set_used(self.service, self.actors[name], spec.used, self.start)

    def _number_from(self, account: int) -> None:
        """Let ids go on where those of the account of this number begin."""
        self.service.state.serial = max(self.service.state.serial, account * SERIALS)

    def _open(self, name: str, spec: AccountSpec) -> Actor:
        anchor = self.start if spec.anchor is None else spec.anchor
        opened = spec.model_copy(update={"keys": (), "anchor": anchor, "used": None})
        actor = open_actor(self, name, opened)
        account = self.service.state.accounts[actor.account]
        for resource in RESOURCES:
            before = self.recording.before.get((name, resource), ())
            for recorded, own in zip(before, getattr(account, resource), strict=False):
                self.ids[name].put(recorded, own)
        for key in dict.fromkeys(call.key for call in self.calls[name]):
            if key is not None:
                bound = self.recording.keys[key].domain_id if key in self.recording.keys else None
                domain = None if bound is None else self.ids[name].get(bound) or account.domains[0]
                self.tokens[name, key] = self.service.issue_key(actor.account, key, self.now, domain)
        drafted = dict.fromkeys(call.operation for call in self.calls[name] if call.drafted)
        self.factories[name] = RequestFactory(name, actor, self.service.state, drafted)
        return actor

    def app_call(self, actor: Actor, operation: str, body: Body) -> Reply:
        """Make a call of the web app, as a simulated world does when it opens an account."""
        call = Call(operation, body=body, surface="app", account=actor.account, environment=actor.environment)
        return self._handled(call)

    def _handled(self, call: Call) -> Reply:
        step = self.service.handle(call, self.now)
        self.service.written(step.reply, self.now)
        self._settle(step.tasks)
        return step.reply

    def lacks(self, call: RecordedCall) -> str:
        """Return what a call names that was there before the recording and is in no portfolio, or ""."""
        return self.recording.lacks(call, self.ids[call.account])

    def call(self, recorded: RecordedCall) -> ReplayOutcome:
        """Make a recorded call again, at its instant."""
        self._until(recorded.at)
        actor = self.actors[recorded.account]
        self.asking = self.recording.numbers[recorded.account], self.asked[recorded.account]
        self.asked[recorded.account] += 1
        self.recorded = recorded
        send = self._send(recorded)
        app = recorded.surface == "app"
        call = Call(
            send.operation,
            key=None if app else self.tokens[recorded.account, recorded.key or ""],
            path=send.path,
            query=send.query,
            body=send.body,
            idempotency_key=recorded.idempotency_key,
            surface=recorded.surface,
            account=actor.account if app else "",
            environment=actor.environment,
            units=recorded.units,
        )
        reply = self._handled(call)
        if recorded.drafted:
            self.factories[recorded.account].learn(send, reply.status, reply.body)
        self._learn(recorded, reply)
        return self._outcome(reply)

    def _send(self, call: RecordedCall) -> Send:
        """Return the request again, about what stands here for what it was about.

        What the line of an access log does not tell is made up.
        """
        if call.drafted:
            item = Item(body=call.body or {}, query=dict(call.query))
            return self.factories[call.account].make(call.operation, self.asking[1], item)
        ids = self.ids[call.account]
        path = {name: ids.reference(v) if name == "id" else v for name, v in call.path.items()}
        query = {n: ids.reference(v) if n in REFERENCES else v for n, v in call.query.items()}
        if "cursor" in query:
            query["cursor"] = ids.translated(query["cursor"])
        body = call.body
        if body is not None:
            body = {n: ids.reference(v) if n in REFERENCES else v for n, v in body.items()}
        return Send(call.operation, path=path, query=query, body=body)

    def finish(self) -> None:
        """Let every job end."""
        while (due := self._next_due()) is not None:
            self._until(due)

    def cost_of(self, outcome: ReplayOutcome) -> int:
        """Return what a call cost in the end: nothing for a job that failed."""
        job = self.service.state.jobs.get(outcome.job)
        return outcome.cost if job is None else job.cost

    def _until(self, now: Micros) -> None:
        while (due := self._next_due()) is not None and due <= now:
            self.now = due
            self._settle(self.service.advance(due).tasks)
            while self.running and self.running[0][0] <= due:
                _, _, job, fails, cost = heappop(self.running)
                self._settle(self.service.ended(job, FAILED if fails else DONE, due, cost).tasks)
        self.now = now

    def _next_due(self) -> Micros | None:
        """The instant of the next end of a job, or of other work of the service."""
        due = self.service.next_due()
        if not self.running:
            return due
        return self.running[0][0] if due is None else min(due, self.running[0][0])

    def _settle(self, tasks: Sequence[Task]) -> None:
        """Start every job, and let every webhook be acknowledged at once."""
        waiting = list(tasks)
        while waiting:
            task = waiting.pop(0)
            if isinstance(task, Attempt):
                waiting += self.service.attempted(task.attempt, Answer(200), self.now).tasks
            else:
                waiting += self.service.started(task.job, self.now).tasks
                self._run(task)

    def _run(self, task: StartJob) -> None:
        """Let a job run as it was recorded, or as is drawn by the numbers of the account and its call."""
        call, number = self.recorded, len(self.service.state.jobs)
        if call is not None and (ending := call.ending) is not None:
            due, cost = self.now + (self.recording.lasts(call) or 0), ending.cost_of(task.estimate)
            heappush(self.running, (due, number, task.job, ending.failed, cost))
            return
        self._draw_run(task)

    def _draw_run(self, task: StartJob) -> None:
        """Let a job run; how long is drawn by the numbers of the account and its call, as fleets do."""
        seed, (account, number) = self.service.state.seed, self.asking
        lasts = self.durations[list(JobKind).index(JobKind(task.kind))]
        drawn = lasts[drawn_below(len(lasts), stream(seed, account, JOB_DURATION), number)]
        rate = self.service.policy.catalogue.failure_rate_of(task.kind)
        fails = draws.below(1000, seed, account, number, Purpose.JOB_OUTCOME) < rate
        heappush(self.running, (self.now + drawn, len(self.service.state.jobs), task.job, fails, None))

    def _learn(self, call: RecordedCall, reply: Reply) -> None:
        """Note which ids here stand for what the recorded call made."""
        if reply.status >= 400 or reply.body is None:
            return
        ids = self.ids[call.account]
        ids.learn_created(call.made, made_by(call.operation, reply.body))
        if call.cursor and reply.body.get("next_cursor"):
            ids.put(call.cursor, reply.body["next_cursor"])

    def _outcome(self, reply: Reply) -> ReplayOutcome:
        """What a call came to; a granted job or brief costs what was estimated."""
        if reply.outcome != "granted" or reply.body is None:
            return ReplayOutcome(reply.status, reply.code)
        data = reply.body["data"]
        if reply.operation == "jobs.create":
            return ReplayOutcome(reply.status, "", self.service.state.jobs[data["id"]].estimate, data["id"])
        briefs = created_by(data) if reply.operation == "keyword_briefs.create" else None
        unit_cost = self.service.policy.catalogue.unit_costs.keyword_brief
        return ReplayOutcome(reply.status, "", len(briefs or ()) * unit_cost)
