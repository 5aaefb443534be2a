"""When something became inevitable: how likely it was from each moment on, over other futures.

A future of a moment has the run's past up to then and draws of its own. It goes on as things stand at that
moment: what the timeline, an outage or a client that starts would bring later is not in it. So a cause that
was planned is seen when it sets in, and one that was drawn when it is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ranksim.core.callers.programs import AnyClient, Python
from ranksim.core.clock import Micros, iso
from ranksim.inference.estimate import Estimate
from ranksim.report import units
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import Action, IssueKey, Set
from ranksim.twin.sim.why.explanation import Chance, Happening, Path, TurningPoint, in_line
from ranksim.twin.sim.why.futures import FEW, Rerunner, other, successes
from ranksim.twin.sim.world import Fork


class Planned(NamedTuple):
    """What a scenario has set in later than its start: when, where it stands in the file, in words."""

    at: Micros
    path: Path
    text: str


def planned_moments(scenario: Scenario) -> list[Planned]:
    """Return what sets in after the start, in order of time."""
    steps = [
        Planned(action.at.on(scenario.start), ("timeline", index), _in_words(action))
        for index, action in enumerate(scenario.timeline)
    ]
    for name, client in scenario.clients.items():
        if (starts := _starts(scenario, client)) != scenario.start:
            steps.append(Planned(starts, ("clients", name), f"client {name} starts"))
    for name, receiver in scenario.receivers.items():
        for index, outage in enumerate(receiver.outages):
            at = outage.begin.on(scenario.start)
            steps.append(Planned(at, ("receivers", name, "outages", index), f"receiver {name} goes down"))
    return sorted(step for step in steps if scenario.start < step.at < scenario.end)


def as_of(scenario: Scenario, now: Micros) -> Scenario:
    """Return the scenario as things stand at an instant: without what sets in later.

    Keys are issued as planned, since clients that have started may be waiting for theirs.
    """
    start = scenario.start
    receivers = {
        name: receiver.model_copy(
            update={"outages": tuple(down for down in receiver.outages if down.begin.on(start) <= now)}
        )
        for name, receiver in scenario.receivers.items()
    }
    clients = scenario.clients.items()
    changes: dict[str, Any] = {
        "timeline": tuple(a for a in scenario.timeline if isinstance(a, IssueKey) or a.at.on(start) <= now),
        "clients": {name: client for name, client in clients if _starts(scenario, client) <= now},
        "receivers": receivers,
        "expect": (),
    }
    return scenario.model_copy(update=changes)


def _starts(scenario: Scenario, client: AnyClient) -> Micros:
    """Return when a client begins; one in Python of the user's at once."""
    return scenario.start if isinstance(client, Python) else client.starts.on(scenario.start)


SHARE = 0.4
"""The share of the worlds that there are to be after which the moment is looked for no more closely."""


@dataclass(slots=True)
class MomentSearch:
    """Looks for the moment in one run: the worlds, the scenario, the run's seed, and futures of a moment.

    Each future is run once, and what came of it kept in `seen`. Once there have been `SHARE` of the worlds
    that there are to be, it is coarser: `untried` says in what.
    """

    worlds: Rerunner
    scenario: Scenario
    seed: int
    futures: int
    untried: list[str] = field(default_factory=list)
    seen: dict[tuple[Micros, int], bool] = field(default_factory=dict)

    def moment(self, first: Happening, before: Sequence[Happening]) -> TurningPoint:
        """Return the moment from which on what `first` shows was inevitable; `before` is what led there."""
        start = self.scenario.start
        if self._is_inevitable(start):
            return TurningPoint(start, "as the run starts", ())
        steps = [step.at for step in planned_moments(self.scenario) if step.at <= first.at]
        low, high = self._between([start, *dict.fromkeys(steps), first.at])
        times = [low, *sorted({happening.at for happening in before if low < happening.at < high}), high]
        if len(times) > 2 and not self.worlds.over(SHARE) and self._is_inevitable(times[-2]):
            low, high = self._between(times[:-1])
        elif not self.worlds.over(SHARE):
            low = high  # it is what came last
        if any(low < time < high for time in times):
            self.untried.append(f"whether it was inevitable before {units.instant(high)}")
        return self._moment_at(high, [*before, first])

    def _moment_at(self, at: Micros, happenings: Sequence[Happening]) -> TurningPoint:
        """Return what set in at a moment, else what happened then."""
        set_in = [step for step in planned_moments(self.scenario) if step.at == at]
        if set_in:
            text = "; ".join(step.text for step in set_in)
            return TurningPoint(at, text, tuple(step.path for step in set_in))
        then = [happening for happening in happenings if happening.at == at]
        clients = dict.fromkeys(happening.client for happening in then)
        causes = tuple(("clients", client) for client in clients if client in self.scenario.clients)
        return TurningPoint(at, "; ".join(dict.fromkeys(happening.text for happening in then[-3:])), causes)

    def chances(self, moment: TurningPoint, first: Happening, before: Sequence[Happening]) -> list[Chance]:
        """Return how likely it was at the start, as each thing set in, just before the moment and at it."""
        marks = {self.scenario.start: "the start"}
        set_in = [step for step in planned_moments(self.scenario) if step.at <= first.at]
        marks |= {step.at: step.text for step in set_in[-2:]}
        earlier = [happening for happening in before if happening.at < moment.at]
        if earlier and moment.at > self.scenario.start:
            marks.setdefault(earlier[-1].at, f"just before: {earlier[-1].text}")
        marks[moment.at] = moment.text
        rows = [
            self._chance(at, marks[at])
            for at in sorted(marks)
            if at < first.at and ((at, 0) in self.seen or not self.worlds.over())
        ]
        return [*rows, self._estimated(first.at, first.text, self.scenario, lambda _: True)]

    @property
    def _enough(self) -> int:
        """How many futures of a moment are enough."""
        return min(self.futures, FEW) if self.worlds.over(SHARE) else self.futures

    def otherwise(self) -> Estimate:
        """Return how likely it is in other worlds: futures of the start, if nothing sets in later."""
        start = self.scenario.start
        if as_of(self.scenario, start) == self.scenario:
            return self._chance(start, "").estimate

        def happens(number: int) -> bool:
            return self.worlds.happens(self.scenario, other(self.seed, "world", number))

        return self._estimated(start, "", self.scenario, happens).estimate

    def _between(self, times: Sequence[Micros]) -> tuple[Micros, Micros]:
        """Narrow [not yet inevitable, …, inevitable] down to two neighbours."""
        low, high = 0, len(times) - 1
        while high - low > 1 and not self.worlds.over(SHARE):
            middle = (low + high) // 2
            if self._is_inevitable(times[middle]):
                high = middle
            else:
                low = middle
        return times[low], times[high]

    def _is_inevitable(self, at: Micros) -> bool:
        """Return whether some futures of a moment all come to it; the first that does not decides."""
        return all(self._comes(at, number) for number in range(FEW))

    def _chance(self, at: Micros, text: str) -> Chance:
        scenario = as_of(self.scenario, at)
        return self._estimated(at, text, scenario, lambda number: self._comes(at, number))

    def _estimated(self, at: Micros, text: str, scenario: Scenario, comes: Callable[[int], bool]) -> Chance:
        """Return in how many futures it comes to it: in one where nothing is drawn, else in enough."""
        exact = self.worlds.is_exact(scenario)
        return Chance(at, text, *successes(comes, 1 if exact else self._enough), exact)

    def _comes(self, at: Micros, number: int) -> bool:
        if (at, number) not in self.seen:
            scenario, seed = as_of(self.scenario, at), other(self.seed, "future", number)
            if at <= self.scenario.start:  # nothing is past yet
                comes = self.worlds.happens(scenario, seed)
            else:
                comes = self.worlds.happens(scenario, self.seed, Fork(at, seed))
            self.seen[at, number] = comes
        return self.seen[at, number]


def _in_words(action: Any) -> str:
    if isinstance(action, Set):
        return f"{action.path} set to {in_line(action.value)}"
    return f"{action.do} ({stated(action)})"


def stated(action: Action) -> str:
    """Return what a file states of an action beside its kind and moment, in a line."""
    return in_line(action.model_dump(mode="json", exclude={"do", "at"}, exclude_unset=True))[1:-1]


def action_at(scenario: Scenario, path: Path) -> str:
    """Return in words the action of the timeline that a path leads to, or to whose value; else ""."""
    match path:
        case ("timeline", int(index)) | ("timeline", int(index), "value") if index < len(scenario.timeline):
            action = scenario.timeline[index]
        case _:
            return ""
    about = f"of {action.path}" if isinstance(action, Set) else f"({stated(action)})"
    return f"the timeline's {action.do} {about} at {iso(action.at.on(scenario.start))}"
