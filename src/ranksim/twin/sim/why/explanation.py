"""Why something happened in a run, as plain data that tells itself: when, how likely, what prevents it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from json import dumps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ranksim.core.clock import DAY, HOUR, Micros, format_duration, iso
from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import chance
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.document import MetricShown, metric
from ranksim.report.table_spec import Tables, TableSpec
from ranksim.report.tables import View, fragment
from ranksim.twin.sim.metrics import unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Path: TypeAlias = tuple[str | int, ...]
"""Where something stands in a scenario."""

LEFT_OUT = "left out"
"""What stands for the value of what is taken out of a scenario."""

KINDS = {
    "cause": "in what set in at that moment",
    "done": "in what is done",
    "sold": "in what is bought or granted",
}
"""What a change may be of, in the order in which changes are preferred, and in words."""

NEARLY_ALL = 0.9
"""The share of other worlds in which a change holds that is preferred."""

SMALL = 0.5
"""How far from the old a value lies at most that is told as the smallest change of all."""

MOST_FAILED = 4
"""So many changes that do not prevent it are named."""

ORDER = (
    "Of each parameter the smallest change that prevents it, and that is shown to do so in more of the same "
    "other worlds than no change does (95 % confidence for all of them together). Named is the first that "
    "holds in nearly all other worlds: of what leaves the invoice as it is, the cause's (what set in at the "
    "moment), else what is done; else what raises it least; else what has no price. Of equals the smallest."
)
"""Which of the changes that prevent it is named."""

EXACT_ORDER = (
    "Of each parameter the smallest change that prevents it. Named is the first: of what leaves the invoice "
    "as it is, the cause's (what set in at the moment), else what is done; else what raises it least; else "
    "what has no price. Of equals the smallest."
)
"""The same where nothing is drawn, neither in the scenario nor with any of the changes."""


def share_of(hits: int, worlds: int, *, exact: bool) -> Estimate:
    """The share of worlds in which something happens: `exact`, without ends, where all worlds are alike."""
    return Estimate(hits / worlds, None, None) if exact else chance(hits, worlds)


class Happening(NamedTuple):
    """Something that was seen in a run: when, in words, whose doing it was, and at which receiver (or "")."""

    at: Micros
    text: str
    client: str = ""
    receiver: str = ""


def enabling(at: Micros, receiver: str) -> str:
    """Return the action of a timeline, as files have it, that enables an endpoint so long after the start."""
    return f"{{at: {format_duration(at)}, do: edit_endpoint, receiver: {receiver}, enabled: true}}"


def in_line(value: Any) -> str:
    """Return a value of JSON as files write it in a line; of a long list its first items."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {in_line(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        more = ["…"] if len(value) > 3 else []
        return f"[{', '.join([*map(in_line, value[:3]), *more])}]"
    return value if isinstance(value, str) else dumps(value, default=str)


class Losses(NamedTuple):
    """What a `receiver` loses in all of a run, and how much of it as its endpoint stays disabled.

    Enabled again as outages end, so long (µs) after the start (`ends`), it would lose `enabled`. Without an
    outage it is tried an hour after it was disabled (`tried`, µs after the start), and is disabled `again`
    at that instant, or not.
    """

    receiver: str
    lost: int
    suppressed: int
    ends: tuple[Micros, ...]
    enabled: int
    tried: Micros = 0
    again: Micros | None = None

    @property
    def sentence(self) -> str:
        """The losses in words, and what to do about them."""
        text = (
            f"By the end of the run {self.receiver} loses {units.many(self.lost, 'event')}, of which "
            f"{self.suppressed:,} came while its endpoint was disabled"
        )
        if self.again is not None:
            action = enabling(self.tried, self.receiver)
            return (
                f"{text}. Enabled again an hour later (timeline: {action}), it is disabled again at "
                f"{units.instant(self.again)}, as it fails without an outage."
            )
        if not self.ends:
            return f"{text}; it stays so until the timeline enables it (edit_endpoint, enabled: true)."
        when = "the outage ends" if len(self.ends) == 1 else f"each of {len(self.ends)} outages ends"
        action = enabling(self.ends[0], self.receiver)
        return f"{text}. Enabled again as {when} (timeline: {action}), it loses {self.enabled:,}."


class Unchanged(NamedTuple):
    """What changes were held against: it `happens` in so many of other `worlds` if nothing is changed.

    `left_out` changes that prevent it in the run are not shown to prevent it there more often than no change
    does. `more` is how many futures to ask for where it happens too seldom to tell, else None. Nothing is
    drawn in `exact` worlds, which are all alike.
    """

    happens: int
    worlds: int
    left_out: int
    more: int | None = None
    exact: bool = False

    @property
    def free(self) -> Estimate:
        """The chance that it does not happen in another world, with nothing changed."""
        return share_of(self.worlds - self.happens, self.worlds, exact=self.exact)


class FailedChange(NamedTuple):
    """A change in words, as far as it goes, that does not prevent it in the run: it leaves `value`."""

    text: str
    value: float

    def sentence(self, unit: str) -> str:
        """The change and what it leaves, in the `unit` of what was asked."""
        return f"{self.text} leaves {units.write(unit, self.value)}"


class Chance(NamedTuple):
    """How likely it was, seen from a moment: `hits` of `futures` that began there come to it.

    It is `exact` where nothing is drawn from there on: there is one future.
    """

    at: Micros
    text: str
    hits: int
    futures: int
    exact: bool = False

    @property
    def estimate(self) -> Estimate:
        """The chance with its 95 % interval, without where it is exact."""
        return share_of(self.hits, self.futures, exact=self.exact)


class TurningPoint(NamedTuple):
    """The moment from which on every future came to it, and what set in or happened then."""

    at: Micros
    text: str
    causes: tuple[Path, ...]
    """Where what set in stands in the file; nothing where it was so from the start."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One parameter changed so far that it does not happen.

    `path` is what a study calls it. `size` is how far the new value lies from the old, as a share of the
    larger (of the run, of a moment). Of other worlds `prevented` is the chance that the change prevents it
    there, too, without an interval where nothing is drawn with it. `kind` is "cause" for a parameter of what
    set in at the moment, else "done", by the customer or in the world, or "sold", which is bought or granted.
    It raises the invoice of a month by `money` (µUSD), None where nobody says. `action` is in words the
    action of the timeline that it is of, or "".
    """

    path: str
    old: str
    new: str
    size: float
    prevented: Estimate
    kind: str
    money: int | None = 0
    action: str = ""

    @property
    def name(self) -> str:
        """What it changes, in words."""
        return self.action or self.path

    @property
    def holds(self) -> bool:
        """Whether it prevents it in nearly all other worlds."""
        return (self.prevented.mean or 0) >= NEARLY_ALL

    @property
    def exact(self) -> bool:
        """Whether nothing is drawn with it, so that one world is like any other."""
        return self.prevented.low is None

    @property
    def sentence(self) -> str:
        """The change in words."""
        if self.new == LEFT_OUT:
            return f"{self.name} left out"
        costs = f" ({units.usd(self.money)} a month more)" if self.money else ""
        return f"{self.name}{':' if self.action else ''} {self.old} → {self.new}{costs}"


CHANGES = TableSpec(
    {**dict.fromkeys(("parameter", "old", "new", "kind"), "text"), "monthly_uusd": "money", "size": "share",
     "prevented": "share"},
    headings={"monthly_uusd": "a month more",
        "old": "is", "new": "would be", "kind": "of", "size": "differs by", "prevented": "prevents it in",
    },
)  # fmt: skip
CHANCES = TableSpec(
    {"from": "text", "what": "text", "chance": "share"},
    others={"at": "instant"},
    headings={"what": "what came then"},
)


@dataclass(frozen=True, slots=True, repr=False)
class Why(ReadyAnswer):
    """Why something happened in a run.

    `replication` (from 0) and `seed` say in which; `first` is what made it true, `moment` when it became
    inevitable, `chances` how likely it was from each moment on, `otherwise` how likely it is in other worlds
    of the scenario as it stands. `changes` prevent it, the best first, each in more other worlds than no
    change does, which `unchanged` tells; a run with the first of them confirmed that. `worlds` were run, and
    `untried` is what these were too few for. `losses` are all that a receiver loses, if that is asked.
    Where no change prevents it in the run, `failed` are those that were tried, first what leaves the least.
    `refusals` are all of the run by code, if they are asked for together: `first` is of one code alone.
    """

    kind = "why"
    plots = ("chances",)
    TABLES = MappingProxyType({"changes": CHANGES, "chances": CHANCES})

    question: str
    scenario: str
    replication: int
    seed: int
    start: Micros
    first: Happening
    moment: TurningPoint
    chances: tuple[Chance, ...]
    otherwise: Estimate
    changes: tuple[Remedy, ...]
    worlds: int
    unchanged: Unchanged | None = None
    untried: tuple[str, ...] = ()
    losses: Losses | None = None
    failed: tuple[FailedChange, ...] = ()
    refusals: tuple[tuple[str, int], ...] = ()

    def __repr__(self) -> str:
        return f"<Why {self.question} in {self.scenario!r}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return fragment(f"Why {self.question}?", [self.sentence], self.views())

    @property
    def title(self) -> str:
        """The question and the scenario."""
        return f"Why {self.question} in {self.scenario}?"

    @property
    def change(self) -> Remedy | None:
        """The best change of one parameter that prevents it, or None."""
        return self.changes[0] if self.changes else None

    @property
    def sentence(self) -> str:
        """The answer in a few sentences."""
        return " ".join((self._when(), self._what(), *self._left()))

    @property
    def _had_a_beginning(self) -> bool:
        """Whether it was not inevitable already as the run started."""
        return bool(self.moment.causes) or self.moment.at > self.start

    def _when(self) -> str:
        first = f"{self.first.text}, {units.instant(self.first.at)}"
        if not self._had_a_beginning:
            return f"{first}: it was inevitable from the start."
        return f"{first}: it was inevitable from {units.instant(self.moment.at)} on ({self.moment.text})."

    def _left(self) -> Iterator[str]:
        """What else is refused or lost, what was not tried, and how to have it tried."""
        if len(self.refusals) > 1:
            codes = [f"{units.count(number)} {code}" for code, number in self.refusals]
            yield (
                f"In all the run has {units.count(sum(dict(self.refusals).values()))} refusals: "
                f"{', '.join(codes[:-1])} and {codes[-1]}; refusals.CODE asks for each."
            )
        if self.losses is not None:
            yield self.losses.sentence
        if self.untried:
            untried = "; ".join(self.untried)
            yield f"Not tried in {self.worlds} worlds: {untried}; more worlds at most try more."

    def _what(self) -> str:
        change = self.change
        if change is None:
            return self._none()
        share, low = (units.percent(remedy or 0) for remedy in (change.prevented.mean, change.prevented.low))
        smaller = any(remedy.kind == change.kind and remedy.size < change.size for remedy in self.changes)
        which = "a change" if smaller and not change.holds else "the smallest change"
        which = "the cheapest change" if smaller and change.money else which
        sure = " that holds in nearly all other worlds" if smaller and change.holds else ""
        holds = (
            "nothing is drawn, so that is sure"
            if change.exact
            else f"it holds in {share} of other worlds (at least {low})"
        )
        text = (
            f"What prevents it: {change.sentence}, {which} {KINDS[change.kind]}{sure}; a run with it "
            f"confirms that, and {holds}"
        )
        if self.unchanged is not None and self.unchanged.happens < self.unchanged.worlds:
            text += f", of which {units.percent(self.unchanged.free.mean or 0)} are free of it unchanged"
        text += "."
        if not change.holds:
            text += " That is not sure: no change that was found holds in nearly all of them."
        return text + self._smallest(change)

    def _smallest(self, change: Remedy) -> str:
        """The smallest of all changes, where that is not the one named, and small."""
        least = min(self.changes, key=lambda remedy: remedy.size)
        if round(least.size, 3) >= round(change.size, 3) or least.size > SMALL:
            return ""
        of = f", {KINDS[least.kind]}," if least.kind != change.kind else ""
        holds = units.percent(least.prevented.mean or 0)
        return f" The smallest of all{of} is {least.sentence}, which holds in {holds} of those tried."

    def _none(self) -> str:
        """That no change is named, and why."""
        held = self.unchanged
        if held is None or not held.left_out:
            return f"No change of one parameter that was tried prevents it{self._failures()}."
        several = units.many(held.left_out, "change")
        seldom = "" if held.more is None else f", which is too seldom to tell; {held.more} futures may"
        return (
            f"No change of one parameter is named: {several} would have prevented it in this run, but none "
            "is shown to prevent it in other worlds more often than no change does. Nothing changed, it "
            f"happens in {held.happens} of the {held.worlds} worlds in which changes were tried{seldom}."
        )

    def _failures(self) -> str:
        """What was tried in vain, as far as it goes."""
        if not self.failed:
            return ""
        unit = unit_of(self.question.split()[0])
        named = "; ".join(each.sentence(unit) for each in self.failed[:MOST_FAILED])
        more = len(self.failed) - MOST_FAILED
        further = f"; and {more} more" if more > 0 else ""
        return f": {units.many(len(self.failed), 'change')} tried, each as far as it goes: {named}{further}"

    @property
    def tables(self) -> Tables:
        """The answer as plain rows: `chances` by moment (µs), and `changes`, the best first."""
        free = None if self.unchanged is None else self.unchanged.free.mean
        chances = [
            {"at": row.at, "what": row.text, **_ends("chance", row.estimate), "futures": row.futures}
            for row in self.chances
        ]
        changes = [
            {
                "parameter": row.path,
                "old": row.old,
                "new": row.new,
                "monthly_uusd": row.money,
                "size": row.size,
            }
            | {**_ends("prevented", row.prevented), "unchanged": free, "kind": row.kind}
            for row in self.changes
        ]
        return {"chances": chances, "changes": changes}

    @property
    def metrics(self) -> dict[str, MetricShown]:
        """How likely it is in other worlds."""
        return {"otherwise": metric("share", self.otherwise)}

    def fields(self) -> dict[str, Any]:
        """Return the fields of the document that answers of other kinds have not."""
        return {
            "question": self.question,
            "scenario": self.scenario,
            "replication": self.replication,
            "seed": self.seed,
            "first": {"at": self.first.at, "what": self.first.text},
            "inevitable": {"at": self.moment.at, "what": self.moment.text},
            "worlds": self.worlds,
            "untried": list(self.untried),
            "losses": None if self.losses is None else self.losses._asdict(),
            "failed": [each._asdict() for each in self.failed],
            "refusals": dict(self.refusals),
        }

    def views(self) -> list[View]:
        """The answer as tables for people."""
        tables = self.tables
        chances = [row | {"from": iso(row["at"])} for row in tables["chances"]]
        changes = [
            row | {"parameter": remedy.name}
            for row, remedy in zip(tables["changes"], self.changes, strict=True)
        ]
        note = (
            "Other futures of the same past, as things stood then, without what the scenario brings later. "
            f"{self._usual()} {self.worlds} worlds were run."
        )
        return [
            *CHANCES.view("How likely it was", chances, note),
            *CHANGES.view("What would have prevented it", changes, self._order()),
        ]

    def _usual(self) -> str:
        """How likely it is in other worlds, if there are any."""
        if self.otherwise.low is None:
            return "Nothing is drawn in this scenario: there is one world, and one future of each moment."
        usual = units.write("share", *self.otherwise)
        further = "" if self.unchanged is None else "; changes were tried in further ones"
        return f"In other worlds of the scenario, with all that it brings, it happens in {usual}{further}."

    def _order(self) -> str:
        """Which changes are listed and named, and what they were held against."""
        held = self.unchanged
        if held is None:
            return ORDER
        if held.exact and all(change.exact for change in self.changes):
            return EXACT_ORDER
        free = units.write("share", *held.free)
        without = f"Nothing changed, it does not happen in {free} of these worlds."
        out = f" Left out: {held.left_out}." if held.left_out else ""
        return f"{ORDER} {without}{out}"

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.report.figure import BLUE, new_figure, plain_axes, title

        ax = new_figure().subplots() if ax is None else ax
        unit, named = (HOUR, "hours") if self.first.at - self.start < 2 * DAY else (DAY, "days")
        times = [(moment.at - self.start) / unit for moment in self.chances]
        shares = [100 * moment.hits / moment.futures for moment in self.chances]
        ax.step(times, shares, where="post", color=BLUE, linewidth=2, marker="o", markersize=4)
        ax.set_ylim(-4, 104)
        ax.set_xlabel(f"{named} since {iso(self.start)}")
        ax.set_ylabel("futures that come to it, %")
        since = iso(self.moment.at)[:16].replace("T", " ") if self._had_a_beginning else "the start"
        title(ax, f"{self.question}: inevitable from {since} on")
        plain_axes(ax)
        return ax


def _ends(name: str, estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate as columns of a row: the name, and its ends."""
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
