"""Which assumptions an answer hangs on: its question, asked again under every other reading, one at a time.

An assumption that was not read cannot change an answer. Those that were are tried with each of their options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import Assumption, options_of, register
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.units import many

T = TypeVar("T")

Question = Callable[[Policy], tuple[T, Iterable[str]]]
"""A question under a policy: its answer, and the fields of the policy that it read."""

READINGS = TableSpec(
    others={"assumption": "text", "field": "text", "reading": "text", "verdict": "text"},
)


@dataclass(frozen=True, slots=True)
class TriedField:
    """A field of a policy that was read: what the policy says, and the verdict under each other option."""

    field: str
    assumed: Any
    verdicts: Mapping[Any, str]

    @property
    def entries(self) -> list[Assumption]:
        """The assumptions that it sets, mostly one."""
        return [entry for entry in register() if self.field in entry.fields]

    @property
    def numbers(self) -> list[str]:
        """The numbers of these assumptions."""
        return [f"U{entry.number}" for entry in self.entries]


@dataclass(frozen=True, slots=True)
class Readings:
    """What becomes of an answer's `verdict` under other readings; `unlisted` are numbers without options.

    `remedy` is what makes the verdict hold under all readings that were tried, where something does.
    """

    verdict: str = ""
    tried: tuple[TriedField, ...] = ()
    unlisted: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def deciding(self) -> tuple[TriedField, ...]:
        """The fields of which another option changes the verdict, those first that do so most often."""
        changing = [tried for tried in self.tried if self._others(tried)]
        return tuple(sorted(changing, key=lambda tried: (-len(self._others(tried)), _place(tried.field))))

    def _others(self, tried: TriedField) -> dict[Any, str]:
        """The options of a field under which the verdict is another."""
        return {option: verdict for option, verdict in tried.verdicts.items() if verdict != self.verdict}

    def changing(self) -> dict[str, tuple[Any, ...]]:
        """Return by field the options that change the verdict."""
        return {tried.field: tuple(self._others(tried)) for tried in self.deciding}

    def policies(self, policy: Policy) -> Iterator[Policy]:
        """Yield a policy with each option that changes the verdict."""
        for tried in self.deciding:
            for _, other in _other_readings(policy, tried.field, self._others(tried)):
                yield other

    def around(self, *lines: str) -> tuple[str, ...]:
        """Say what changes the verdict, then these lines, then in a line or two what does not."""
        return *self.deciding_sentences(), *lines, *self.other_sentences()

    def deciding_sentences(self) -> tuple[str, ...]:
        """Say of each assumption that changes the verdict how often, to what, and how to observe it."""
        lines = [self._sentence(tried) for tried in self.deciding]
        return *lines, *([self.remedy] if self.remedy else [])

    def other_sentences(self) -> tuple[str, ...]:
        """Name the assumptions that were read and do not change the verdict, or were not tried."""
        deciding = {number for tried in self.deciding for number in tried.numbers}
        calm = _numbers({number for tried in self.tried for number in tried.numbers} - deciding)
        unlisted = _numbers({*self.unlisted} - deciding - {*calm})
        lines = []
        if calm:
            what = "other" if deciding else "assumption"
            leave = "leaves" if len(calm) == 1 else "leave"
            lines.append(f"{many(len(calm), what)} {leave} the verdict as it is: {', '.join(calm)}.")
        if unlisted:
            lines.append(f"Read, and not tried, as their values cannot be listed: {', '.join(unlisted)}.")
        return tuple(lines)

    def _sentence(self, tried: TriedField) -> str:
        others, entry = self._others(tried), tried.entries[0]
        total = len(tried.verdicts) + 1
        by_verdict: dict[str, list[str]] = {}
        for option, verdict in others.items():
            by_verdict.setdefault(verdict, []).append(_written(option))
        changed = "; ".join(f"under {_listed(names)} {verdict}" for verdict, names in by_verdict.items())
        what = f"{_listed(tried.numbers)}, {entry.statement[0].lower()}{entry.statement[1:]}"
        assumed = f"{tried.field.rpartition('.')[2]} = {_written(tried.assumed)}"
        return (
            f"This holds under {total - len(others)} of {many(total, 'reading')} of {what} "
            f"(assumed: {assumed}): {changed}. To observe it, {entry.observe}."
        )

    def tables(self) -> Tables:
        """The readings as a table of an answer, where any were tried."""
        return {"readings": self.rows()} if self.tried else {}

    def rows(self) -> list[Row]:
        """Every reading that was tried, what changes the verdict first."""
        deciding = self.deciding
        ordered = (*deciding, *(tried for tried in self.tried if tried not in deciding))
        return [
            {
                "assumption": ", ".join(tried.numbers),
                "field": tried.field,
                "reading": _written(option),
                "verdict": verdict,
                "holds": verdict == self.verdict,
            }
            for tried in ordered
            for option, verdict in ((tried.assumed, self.verdict), *tried.verdicts.items())
        ]


NO_READINGS = Readings()
"""Those of an answer of which no others were tried."""


def under_readings(ask: Question[T], policy: Policy, verdict: Callable[[T], str]) -> tuple[T, Readings]:
    """Return the answer under a policy, and what becomes of its `verdict` under other readings.

    Each field that was read is given each of its other options, with all others as they are.
    """
    answer, consulted = ask(policy)
    assumed = verdict(answer)
    tried, unlisted = [], []
    for field in sorted(set(consulted), key=_place):
        options = options_of(field)
        if options:
            verdicts = {
                option: verdict(ask(other)[0]) for option, other in _other_readings(policy, field, options)
            }
            tried.append(TriedField(field, _value(policy, field), verdicts))
        else:
            unlisted += [f"U{entry.number}" for entry in register() if field in entry.fields]
    return answer, Readings(assumed, tuple(tried), tuple(unlisted))


def _other_readings(policy: Policy, field: str, options: Iterable[Any]) -> Iterator[tuple[Any, Policy]]:
    section, _, name = field.partition(".")
    values = getattr(policy, section)
    for option in options:
        if option != getattr(values, name):
            yield option, policy.model_copy(update={section: values.model_copy(update={name: option})})


def _value(policy: Policy, field: str) -> Any:
    section, _, name = field.partition(".")
    return getattr(getattr(policy, section), name)


def _place(field: str) -> tuple[int, str]:
    """Where a field stands among others: by the assumption that it sets, then by name."""
    return min(entry.number for entry in register() if field in entry.fields), field


def _numbers(numbers: Iterable[str]) -> list[str]:
    return sorted(set(numbers), key=lambda number: int(number[1:]))


def _written(option: Any) -> str:
    """An option as a policy file has it."""
    return str(option).lower() if isinstance(option, bool) else str(option)


def _listed(names: list[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
