"""Why something happened in a run: the moment from which on it was inevitable, and what would prevent it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ranksim.core.callers.programs import AnyClient, Poller
from ranksim.core.errors import BadInput
from ranksim.core.service.operations import is_read_only
from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.paired_shares import fewest_gained, is_gain
from ranksim.report import units
from ranksim.report.heading import ExpectationVerdict
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.expectations import Expectation
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import OfReceiver, ResizePool, Set
from ranksim.twin.sim.why.changes import Knob, knobs, monthly_invoice, study_path
from ranksim.twin.sim.why.explanation import (
    KINDS,
    LEFT_OUT,
    FailedChange,
    Happening,
    Remedy,
    TurningPoint,
    Unchanged,
    Why,
    share_of,
)
from ranksim.twin.sim.why.futures import FEW, Question, Rerunner, other
from ranksim.twin.sim.why.moments import MomentSearch, action_at

FUTURES = 20
"""How many other futures are tried unless it is said."""

PROBES = 5
"""How many other worlds a change is made large enough for beside the run itself, if it can be."""

SEARCHED = 0.7
"""The share of the worlds that there are to be after which changes are looked for no more closely."""

STAGES = {"cause": (0.1, 0.2), "done": (0.2, 0.4), "sold": (0.4, 0.55), "told": (0.55, 0.85)}
"""From which to which share of the search stages last, about; the moment comes before, other worlds after."""

Item = TypeVar("Item")


class _Turn(NamedTuple):
    """A knob, the index of its value, and whether that prevents it in some other worlds as well."""

    knob: Knob
    at: int
    sure: bool = True

    @property
    def size(self) -> float:
        return self.knob.size(self.at)


def why(
    scenario: Scenario,
    seeds: Sequence[int],
    about: str | Expectation | ExpectationVerdict,
    futures: int = FUTURES,
    progress: Tell | None = None,
    max_worlds: int | None = None,
) -> Why:
    """Return why something happened in one of the runs of a scenario, whose seeds are `seeds`.

    `about` is a metric that only grows, `refusals.slot_limit_exceeded`, or `jobs.rank_run.wait.max > 10m`, or
    an expectation, which asks why it fails. `futures` is how many other futures of a moment are tried at
    most: half of them are enough where they agree, and never fewer than ten. A change is tried in half to
    five times as many other worlds, by how often it happens in them. `progress` is called with how many
    worlds have been run. After about `max_worlds` the answer says what was not tried; the moment, and one
    change, are always looked for. Raises BadInput where it did not happen.
    """
    for name, number in (("futures", futures), ("max_worlds", 1 if max_worlds is None else max_worlds)):
        if number < 1:
            raise BadInput(f"{name}: expected at least 1, found {number}")
    question = Question.parse(about)
    with noted("asking why", progress) as tell:
        return _answered(scenario, seeds, Rerunner(question, tell, max_worlds), futures)


def _answered(scenario: Scenario, seeds: Sequence[int], worlds: Rerunner, futures: int) -> Why:
    question = worlds.question
    plain = scenario.model_copy(update={"expect": ()})
    replication, first, before = _first_of(worlds, plain, seeds)
    seed = seeds[replication]
    account = _account_of(plain, question, first)
    small = narrowed(plain, question, account)
    if small != plain:
        seen, earlier = worlds.first(small, seed)
        small, before = (small, earlier) if seen == first else (plain, before)
    search = MomentSearch(worlds, small, seed, futures)
    moment = search.moment(first, before)
    otherwise = search.otherwise()
    prevention = _Prevention(worlds, plain, small, seed, futures, moment, otherwise)
    changes = tuple(prevention.changes(account))
    chances = tuple(search.chances(moment, first, before))
    run = str(question), scenario.name, replication, seed, scenario.start
    untried = (*search.untried, *prevention.untried())
    losses = worlds.losses(plain, seed)
    failed = () if changes or prevention.unchanged else tuple(prevention.failed())
    about = worlds.runs, prevention.unchanged, untried, losses, failed
    return Why(*run, first, moment, chances, otherwise, changes, *about, worlds.refusals(plain, seed))


def _first_of(
    worlds: Rerunner, scenario: Scenario, seeds: Sequence[int]
) -> tuple[int, Happening, list[Happening]]:
    """Return the first replication in which it happened, what made it so, and all before. Raises BadInput."""
    for replication, seed in enumerate(seeds):
        first, before = worlds.first(scenario, seed)
        if first is not None:
            return replication, first, before
    many = units.many(len(seeds), "replication")
    raise BadInput(f"why {worlds.question}: it did not happen in {many} of {scenario.name}")


def _account_of(scenario: Scenario, question: Question, first: Happening) -> str:
    """The account whose affair it is, or "" where it may be that of several."""
    if first.client in scenario.clients:
        return scenario.clients[first.client].account or ""
    for name, receiver in scenario.receivers.items():
        if question.metric.startswith(f"endpoints.{name}."):
            return receiver.account
    return next(iter(scenario.accounts)) if len(scenario.accounts) == 1 else ""


@dataclass(slots=True)
class _Prevention:
    """Looks for changes that prevent it: in the `small` scenario, and confirms them in the `full` one."""

    worlds: Rerunner
    full: Scenario
    small: Scenario
    seed: int
    futures: int
    moment: TurningPoint
    otherwise: Estimate
    unchanged: Unchanged | None = None
    skipped: int = 0
    rough: int = 0
    unproven: int = 0
    tried: list[Knob] = field(default_factory=list)

    def untried(self) -> Iterator[str]:
        """Say what was left out as there were as many worlds as there were to be."""
        if self.skipped:
            yield units.many(self.skipped, "parameter")
        if self.rough:
            yield f"smaller changes of {units.many(self.rough, 'parameter')}"
        if self.unproven:
            yield f"whether {units.many(self.unproven, 'change')} would prevent it elsewhere, too"

    def changes(self, account: str) -> list[Remedy]:
        """Return changes that prevent it, the best first: of each kind and parameter the smallest.

        Each is made large enough to prevent it in some other worlds as well, if it can. Of further worlds it
        must prevent it in more than no change does; what is not shown to is left out. First come those that
        leave the invoice as it is: the cause's, then those of what is done; then what raises it, the cheaper
        first, and what has no price. Of equals the smaller comes first. The best is the first that
        holds in nearly all further worlds and that a run of the whole scenario confirms.
        """
        turns: list[_Turn] = []
        code = self.worlds.question.code
        turned = knobs(self.small, account, limited=code in ("", "rate_limited"))
        for kind in KINDS:
            turns += self._smallest_of(kind, [knob for knob in turned if self._kind(knob) == kind])
        turns.sort(key=self._place)
        if not turns:
            return []
        error = (1 - LEVEL) / len(turns)
        unchanged = self._unchanged(error)
        proven = [
            (turn, remedy)
            for turn in self._followed("told", self._worth_proving(turns, len(unchanged)))
            if (remedy := self._change(turn, unchanged, error)) is not None
        ]
        seldom = not is_gain(sum(unchanged), 0, error)
        more = max(2 * self.futures, _wanted(error, sum(unchanged) / len(unchanged)) // 5) if seldom else None
        left_out = len(turns) - self.unproven - len(proven)
        exact = self.worlds.is_exact(self.small)
        self.unchanged = Unchanged(sum(unchanged), len(unchanged), left_out, more, exact)
        ordered = sorted(proven, key=lambda pair: not pair[1].holds)
        while ordered:
            turn, _ = ordered[0]
            confirmed = self.worlds.value(turn.knob.turned(self.full, turn.at), self.seed)
            if confirmed <= self.worlds.question.bound:
                break
            del ordered[0]
        best = ordered[:1]
        return [remedy for _, remedy in (*best, *(pair for pair in proven if pair in ordered[1:]))]

    def failed(self) -> list[FailedChange]:
        """Return what was tried, where nothing prevents it in the run, first what leaves the least."""
        failed = []
        for knob in self.tried:
            with suppress(BadInput):  # a scenario that no longer fits together
                value = self.worlds.value(knob.turned(self.small, knob.count), self.seed)
                path = action_at(self.small, knob.path) or study_path(knob.path)
                new = knob.write(knob.value(knob.count))
                failed.append(FailedChange(f"{path} {knob.write(knob.old)} → {new}", value))
        return sorted(failed, key=lambda change: change.value)

    def _unchanged(self, error: float) -> list[bool]:
        """In which further worlds it happens with nothing changed.

        There are half as many of them as futures, or as many as it takes, up to five times as many.
        """
        least, most = max(FEW, self.futures // 2), 5 * self.futures
        count = max(least, min(most, _wanted(error, self.otherwise.mean or 0.0) or self.futures))
        if self.worlds.most is not None:
            count = max(FEW, min(count, (self.worlds.most - self.worlds.runs) // 3))
        return [self._happens(self.small, other(self.seed, "fresh", number)) for number in range(count)]

    def _worth_proving(self, turns: Sequence[_Turn], each: int) -> Sequence[_Turn]:
        """The first of all changes, and as many more as there are worlds left for, `each` taking so many."""
        if self.worlds.most is None:
            return turns
        few = max(1, (self.worlds.most - self.worlds.runs) // each)
        self.unproven = len(turns[few:])
        return turns[:few]

    def _followed(self, stage: str, several: Sequence[Item]) -> Iterator[Item]:
        """Yield what a stage works through, and note how much of the search is over."""
        begin, end = STAGES[stage]
        for number, item in enumerate(several):
            self.worlds.share = begin + (end - begin) * number / len(several)
            yield item
        self.worlds.share = end

    def _place(self, turn: _Turn) -> tuple[bool, bool, int, int, float]:
        """Where a change stands among others: by money, then by what it is of, then by its size."""
        money = self._money(turn)
        kind = list(KINDS).index(self._kind(turn.knob))
        return not turn.sure, money is None, money or 0, kind, turn.size

    def _money(self, turn: _Turn) -> int | None:
        """By how much a change raises the invoice of a month (µUSD); None where nobody says."""
        before, after = map(monthly_invoice, (self.small, turn.knob.turned(self.small, turn.at)))
        if before is None or after is None or (before == after and turn.knob.sold):
            return None  # a limit alone has no price
        return after - before

    def _kind(self, knob: Knob) -> str:
        if any(knob.path[: len(path)] == path for path in self.moment.causes):
            return "cause"
        return "sold" if knob.sold else "done"

    def _smallest_of(self, kind: str, several: Sequence[Knob]) -> list[_Turn]:
        """Return of each parameter the knob that needs the smallest turn.

        One is only looked at closely where less than the best so far is enough of it; and leaving something
        out only where nothing else helps.
        """
        best: dict[str, _Turn] = {}
        for knob in self._followed(kind, sorted(several, key=lambda turn: turn.parameter == LEFT_OUT)):
            if knob.parameter == LEFT_OUT and best.keys() - {LEFT_OUT}:
                continue
            if self.worlds.over(SEARCHED):
                self.skipped += 1
                continue
            nearest = best.get(knob.parameter)
            self.tried.append(knob)
            index = self._smallest(knob, 0, knob.below(nearest.size) if nearest else knob.count, [self.seed])
            if index is not None:
                best[knob.parameter] = _Turn(knob, index)
        return [self._reliable(turn) for turn in best.values()]

    def _reliable(self, turn: _Turn) -> _Turn:
        """Turn a knob further, where that prevents it in some other worlds as well."""
        if self.worlds.over(SEARCHED):
            return turn._replace(sure=False)
        others = [other(self.seed, "world", number) for number in range(PROBES)]
        alike = self.worlds.is_exact(turn.knob.turned(self.small, turn.at))
        if alike or self._prevents(turn.knob, turn.at, others):
            return turn
        further = self._smallest(turn.knob, turn.at, turn.knob.count, [*others, self.seed])
        return turn._replace(sure=False) if further is None else turn._replace(at=further)

    def _smallest(self, knob: Knob, low: int, high: int, seeds: Sequence[int]) -> int | None:
        """The nearest value beyond `low` that prevents it in worlds; None where not even that at `high` does.

        What is used under a limit as at `high` tells where to look first; it is sampled, so one more may be.
        """
        if high <= low or not self._prevents(knob, high, seeds):
            return None
        enough = low
        if knob.use:
            turned = knob.turned(self.small, high)
            enough = knob.reaching(max(self.worlds.value(turned, seed, knob.use) for seed in seeds))
        while high - low > 1 and not self.worlds.over(SEARCHED):
            near = (index for index in (enough, enough - 1, enough + 1) if low < index < high)
            middle = next(near, (low + high) // 2)
            if self._prevents(knob, middle, seeds):
                high = middle
            else:
                low = middle
        self.rough += high - low > 1
        return high

    def _prevents(self, knob: Knob, index: int, seeds: Sequence[int]) -> bool:
        return all(not self._happens(knob.turned(self.small, index), seed) for seed in seeds)

    def _happens(self, scenario: Scenario, seed: int) -> bool:
        """Return whether it happens; a scenario that no longer fits together is no help either."""
        try:
            return self.worlds.happens(scenario, seed)
        except BadInput:
            return True

    def _change(self, turn: _Turn, unchanged: Sequence[bool], error: float) -> Remedy | None:
        """Tell a change by worlds that it was not chosen by; None unless it prevents more than luck would."""
        knob, changed = turn.knob, turn.knob.turned(self.small, turn.at)

        def happens(number: int) -> bool:
            return self._happens(changed, other(self.seed, "fresh", number))

        bad = [number for number, happened in enumerate(unchanged) if happened]
        gained = len(bad) - sum(map(happens, bad)) if is_gain(len(bad), 0, error) else 0
        if not is_gain(gained, 0, error):
            return None
        lost = sum(happens(number) for number, happened in enumerate(unchanged) if not happened)
        if not is_gain(gained, lost, error):
            return None
        exact = self.worlds.is_exact(changed)
        return Remedy(
            study_path(knob.path),
            knob.write(knob.old),
            knob.write(knob.value(turn.at)),
            turn.size,
            share_of(len(unchanged) - len(bad) + gained - lost, len(unchanged), exact=exact),
            self._kind(knob),
            self._money(turn),
            action_at(self.small, knob.path),
        )


def _wanted(error: float, rate: float) -> int:
    """How many worlds nearly always show that a change prevents what happens in a share `rate` of them.

    Twice as many as would on average; 0 of what was never seen to happen.
    """
    return math.ceil(2 * fewest_gained(error) / rate) if rate else 0


def narrowed(scenario: Scenario, question: Question, account: str) -> Scenario:
    """Leave out who cannot have part in what happens to an account, so that many worlds can be tried.

    Clients that only read take no part unless calls are counted, or the rate limit refuses and they may come
    to it; nor do those that only start jobs where slots are lacking. Receivers take part in what is asked of
    receivers only, and what is of other accounts in nothing where no workers are shared.
    """
    of_all = question.of_calls or question.metric.endswith(".given_up")
    if (of_all and not question.code) or any(isinstance(a, Set) for a in scenario.timeline):
        return scenario  # what is set may be of whoever would be left out
    apart = account and not _shares_workers(scenario)

    def of_others(owner: str | None) -> bool:
        return bool(apart) and owner not in (None, account)

    clients = {
        name: client
        for name, client in scenario.clients.items()
        if not of_others(client.account) and _has_part(scenario, question, client)
    }
    named = {action.receiver for action in scenario.timeline if isinstance(action, OfReceiver)}
    of_receivers = question.metric.startswith(("endpoints.", "deliveries."))
    receivers = {
        name: receiver
        for name, receiver in scenario.receivers.items()
        if name in named or (of_receivers and not of_others(receiver.account))
    }
    return scenario.model_copy(update={"clients": clients, "receivers": receivers})


def _shares_workers(scenario: Scenario) -> bool:
    """Whether jobs of several accounts may wait for the same workers."""
    limited = any(pool.capacity != "unlimited" for pool in scenario.pools.values())
    return limited or any(isinstance(action, ResizePool) for action in scenario.timeline)


def _has_part(scenario: Scenario, question: Question, client: AnyClient) -> bool:
    if question.code == "rate_limited":
        return not _keeps_below(scenario, client)
    if _only_reads(client):
        return False
    if question.code == "slot_limit_exceeded" and _only_reads(client, "jobs.create", "keyword_briefs.create"):
        return scenario.policy.assumptions.expensive_debits_write  # else they leave writes as they are
    return True


def _keeps_below(scenario: Scenario, client: AnyClient) -> bool:
    """Whether a client polls so seldom, with a key of its own, that the rate limit never refuses it."""
    keys = [_key_of(scenario, caller) for caller in scenario.clients.values()]
    if not isinstance(client, Poller) or not _only_reads(client) or None in keys:
        return False
    facts = scenario.policy.facts
    if scenario.policy.windows:
        return False
    polls = 1 + facts.rate_window // client.every
    return keys.count(_key_of(scenario, client)) == 1 and polls * client.pages <= facts.rates.read


def _key_of(scenario: Scenario, client: AnyClient) -> tuple[str, str] | None:
    """The account and the key that a client calls with; None where it may be any."""
    if client.account is None:
        return None
    return client.account, client.key or scenario.accounts[client.account].keys[0].name


def _only_reads(client: AnyClient, *but: str) -> bool:
    """Whether all that a client calls only reads, but for some operations."""
    return client.operations is not None and is_read_only(client.operations - {*but})
