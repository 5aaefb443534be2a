"""Which plan fits at each time, as a timeline sets, adds, removes or buys something, and as clients begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ranksim.core.clock import iso
from ranksim.core.contract.policy import Policy
from ranksim.planner.capacity.plan_size import Size, cheapest, plan_text
from ranksim.planner.capacity.workload import Later, Workload
from ranksim.report import units
from ranksim.report.plans import UNKNOWN
from ranksim.report.table_spec import Row, TableSpec
from ranksim.report.tables import View

LATER = TableSpec(
    others={"at": "instant", "price_uusd": "money", "provider_cost_uusd": "money"}, keys=("at", "plan")
)


MONTH_BEGINS = "another month begins"
"""What changes where nothing else does: what was spent and held before counts no more."""


@dataclass(frozen=True, slots=True)
class LaterSizes:
    """What every plan comes to in a month of what is at work and set at a time, without growth."""

    later: Later
    sizes: Mapping[str, Size]

    @property
    def plan(self) -> str | None:
        """The cheapest plan that fits, None where none does."""
        return cheapest(self.sizes, self.later.load.plan)

    def rows(self) -> Iterator[Row]:
        """Yield a row a plan; money is µUSD."""
        for plan, size in self.sizes.items():
            row = {"at": self.later.at, "sets": self.later.changes, "plan": plan, **size.row("")}
            yield {**row, "breaks": list(size.breaks), "cheapest": plan == self.plan}

    def sentence(self, before: Mapping[str, Size]) -> str:
        """Say which plan fits from then on, where that or its price is not as it was before."""
        was, now = cheapest(before, self.later.load.plan), self.plan
        when = f", when {self.later.changes}," if self.later.changes else ""
        since = f"From {iso(self.later.at)}{when}"
        breaks = self.sizes[was].breaks if was and was != now else ()
        why = f" (what breaks of {was}: {', '.join(breaks)})" if breaks else ""
        if now is None:
            return f"{since} no plan fits{why}." if was else ""
        size = self.sizes[now]
        if was == now and (size.helps, size.price) == (before[now].helps, before[now].price):
            return ""
        return f"{since} {plan_text(now, self.sizes)} fits, {size.for_price}{why}."


def later_sizes(
    times: Iterable[Later],
    before: Mapping[str, Size],
    sizes_of: Callable[[Workload, Policy], Mapping[str, Size]],
) -> Iterator[LaterSizes]:
    """Yield what every plan comes to at each time, but where only a month begins and leaves it as it was."""
    for then in times:
        sizes = sizes_of(then.load, then.policy)
        if then.changes or sizes != before:
            yield LaterSizes(then, sizes)
        before = sizes


def later_sentence(later: Sequence[LaterSizes], before: Mapping[str, Size]) -> str:
    """Say what becomes of an answer with what a timeline sets; what leaves it as it is in one sentence."""
    parts, same = [], []
    for then in later:
        if sentence := then.sentence(before):
            parts.append(sentence)
        elif then.later.sets:
            same.append(iso(then.later.at))
        before = then.sizes
    if same:
        parts.append(f"What the timeline sets at {' and '.join(same)} leaves that as it is.")
    return " ".join(parts)


def later_view(later: Sequence[LaterSizes]) -> View:
    """Return what fits after what is set as a table for people."""
    rows = []
    for then in later:
        size = None if then.plan is None else then.sizes[then.plan]
        price = UNKNOWN if size is None or size.price is None else units.usd(size.price)
        rows.append(
            (
                iso(then.later.at),
                then.later.changes or MONTH_BEGINS,
                *(plan_text(then.plan, then.sizes) or "no plan", "–" if size is None else price),
                ", ".join(then.sizes[then.later.load.plan].breaks) or "–",
            )
        )
    note = "A whole month of what is at work then; what came before counts until its month ends."
    plans = {then.later.load.plan for then in later}
    own = plans.pop() if len(plans) == 1 else "the plan it has"
    headings = ("from", "what changes", "cheapest plan", "price a month", f"what breaks of {own}")
    return View("As things change, without growth", headings, 3, tuple(rows), note)
