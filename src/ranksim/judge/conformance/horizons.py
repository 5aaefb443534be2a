"""How long what was seen can matter to each rule, and why; past its horizon a judge forgets.

Forgetting is sound: what is left of a conforming run after its beginning is cut off is a conforming run, and
every judge must bear a trace that begins at any moment. It can only lose power. Where nothing shorter is
known to lose none, a rule's horizon is the whole run, and what its judge keeps grows with the run.

Two things are known only when a trace was read whole: which exchanges may be unmarked replays
(`Observation.repeat`), and which endpoint a webhook attempt came to, where a later call tells its URL
(`ReceivedAttempt.endpoint`). Until then a judge has them as far as they were known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.calls.idempotency import KEPT
from ranksim.judge.conformance.calls.jobs import FORGOTTEN as JOB_FORGOTTEN
from ranksim.judge.conformance.calls.pagination import REMEMBERED as WALKS_REMEMBERED
from ranksim.judge.conformance.calls.updates import FORGOTTEN as RESOURCE_FORGOTTEN
from ranksim.judge.conformance.rate.windows import IDLE as WINDOWS_IDLE
from ranksim.judge.conformance.spending.by_account import IDLE as ACCOUNT_IDLE


@dataclass(frozen=True, slots=True)
class Horizon:
    """How long (business µs) what was seen can matter to some rules.

    It is 0 for one exchange and DISTANT_FUTURE for the run. `rules` are names, or what names begin with, up
    to a dot.
    """

    rules: tuple[str, ...]
    length: Micros
    why: str

    @property
    def says(self) -> str:
        """The length in words."""
        if self.length == 0:
            return "the exchange"
        return "the run" if self.length == DISTANT_FUTURE else f"{self.length // HOUR} h"

    def covers(self, rule: str) -> bool:
        """Return whether it is that of a rule, by name or by family."""
        return rule in self.rules or rule.partition(".")[0] + "." in self.rules


HORIZONS: Final = (
    Horizon(
        ("rate.headers", "rate.classes", "rate.retry_after", "rate.traffic_only"),
        0,
        "a response by itself shows them held or broken",
    ),
    Horizon(
        ("header.", "error.", "resource.envelope", "resource.timestamps", "resource.event_types"),
        0,
        "a response by itself shows them held or broken",
    ),
    Horizon(
        ("access.key", "access.public", "access.environment", "access.scoped_writes"),
        0,
        "a call by itself shows them held or broken",
    ),
    Horizon(("job.kinds", "job.reason", "job.finished"), 0, "a reply by itself shows them held or broken"),
    Horizon(("paging.limit", "paging.end"), 0, "a page by itself shows them held or broken"),
    Horizon(
        ("rate.retry_after_honoured",),
        DISTANT_FUTURE,
        "the next call of a window decides it, whenever that comes; until then the refusal is kept",
    ),
    Horizon(
        ("idempotency.",),
        KEPT * Facts().idempotency_retention,
        "a key is remembered for 24 h, and its repeats in the two days after show that it was forgotten",
    ),
    Horizon(
        ("rate.read", "rate.write", "rate.expensive", "rate.remaining", "rate.per_key"),
        WINDOWS_IDLE,
        "windows of 60 s without a call for a day are empty; which algorithms cannot have run is kept",
    ),
    Horizon(
        ("guards.", "cost.", "quota.", "slots.", "cooldown.", "dry_run."),
        ACCOUNT_IDLE,
        "without a call for a month, an account's periods, holds and cooldowns are over; one in use is kept, "
        "since a job may fail at any time and give back what it took",
    ),
    Horizon(
        ("job.progress", "job.final", "job.wrong_kind"),
        JOB_FORGOTTEN,
        "a job that has ended stays as it is: of each, what came last and furthest, till nothing tells of it",
    ),
    Horizon(
        ("paging.once", "paging.complete", "paging.cursor", "paging.walk", "paging.default"),
        3 * WALKS_REMEMBERED,
        "what is shown half a day before and after a walk was there; a cursor is returned within a day",
    ),
    Horizon(
        ("access.accepted", "access.scope", "access.scoped_endpoints"),
        DISTANT_FUTURE,
        "a refused key may be accepted later, and a thing's domain be told late; few calls wait for that",
    ),
    Horizon(
        ("resource.patch", "resource.unconditional"),
        RESOURCE_FORGOTTEN,
        "what was set shows until it is set again, so a resource in use is kept; without a patch, its last "
        "readings alone",
    ),
    Horizon(
        ("resource.fields",),
        DISTANT_FUTURE,
        "a domain that was crawled stays so; two calls of each domain are kept, and of nothing else",
    ),
    Horizon(
        ("webhook.",),
        DISTANT_FUTURE,
        "a run of failures counts from an endpoint's creation, and only a list, which is read whenever a "
        "caller reads it, tells what never came",
    ),
)
"""Every rule has one row."""
