"""An API probed: a plan that is said before anything is sent, its rounds, and what they show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlsplit

from ranksim.core.addresses import LOOPBACK
from ranksim.core.clock import SECOND, Micros, format_duration
from ranksim.core.contract.quota import RateQuota
from ranksim.core.errors import BadInput
from ranksim.core.trace import Exchange, Header, Trace, TraceKey, safe_headers
from ranksim.judge.conformance.rate.ledger import ADMITTED, REFUSED
from ranksim.judge.limits.calls import REFUSALS, LimitedCall
from ranksim.judge.limits.driver import HarmedError, Prober, ProbeRequest
from ranksim.judge.limits.finding import find_quotas
from ranksim.judge.limits.judged import LimitVerdict
from ranksim.judge.limits.limits import JudgedLimits
from ranksim.judge.limits.parts import LimitOf, judge_part
from ranksim.judge.limits.probes import IDLE, MOST_LANES, ROUNDS, SPARE, Probes, Probing, Volley, round_calls
from ranksim.report.progress import Tell, nobody

SCOPE_CALLS = 3
"""Calls of another caller, once the first one's limit is reached."""


ENDED = {"time": "when the time was over", "calls": "at the most calls"}
"""What is said of probes that ended before all was decided."""


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """What is probed: the first of `endpoints`; whether the others and `others` share its limit comes last.

    `quota` is the limit, "" where it is to be found. At most `most` calls are made, in `length` µs.
    """

    endpoints: tuple[ProbeRequest, ...]
    quota: str = ""
    others: Mapping[str, ProbeRequest] = field(default_factory=dict)
    most: int = 5000
    length: Micros = 300 * SECOND
    refusals: Collection[int] = REFUSALS
    shared: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.quota:
            RateQuota.parse(self.quota)

    @property
    def endpoint(self) -> ProbeRequest:
        """What is probed."""
        return self.endpoints[0]

    @property
    def further(self) -> dict[str, ProbeRequest]:
        """Whose limit may be the same, by what they are called."""
        return {**{each.url: each for each in self.endpoints[1:]}, **self.others}

    @property
    def is_local(self) -> bool:
        """Whether all of it is on this machine."""
        return all(urlsplit(each.url).hostname in LOOPBACK for each in self.endpoints)

    def described(self) -> str:
        """Say what will be sent."""
        lasts = format_duration(self.length)
        if not self.quota:
            text = f"the limit is read from headers or found, at most {self.most:,} calls in {lasts}"
        else:
            quota = RateQuota.parse(self.quota)
            rounds = ROUNDS[: len(ROUNDS) - SPARE]
            cost = min(self.most, sum(round_calls(steps, quota.limit) for steps in rounds))
            each = max(steps[-1].at + steps[-1].spread for steps in rounds) + IDLE + 0.5
            lasting = round(len(rounds) * each * quota.length / SECOND) * SECOND
            takes = format_duration(min(self.length, lasting))
            text = f"{len(rounds)} rounds, about {cost:,} calls in {takes}; at most {self.most:,} in {lasts}"
        method = self.endpoint.method
        return f"{text}; {method} only, up to {MOST_LANES} at once; it ends at the first sign of harm"


def probe(
    plan: ProbePlan, tell: Tell = nobody, prober: Prober | None = None
) -> tuple[JudgedLimits, list[LimitedCall]]:
    """Carry out a plan; return what was found, with all calls. Raises BadInput where no limit was met."""
    made = prober or Prober(plan.endpoint, refusals=plan.refusals, on_volley=lambda count: tell_count(count))
    begun = made.clock.now()
    until = begun + plan.length

    def tell_count(count: int) -> None:
        tell(min(1.0, (made.clock.now() - begun) / plan.length), f"{count:,} calls")

    calls: list[LimitedCall] = []
    ended = ""
    try:
        quotas = [RateQuota.parse(plan.quota)] if plan.quota else _find(plan, made, until, calls)
        part, ended = _probed(plan, made, quotas, until, calls)
        scope = () if ended or part.judged.verdict == LimitVerdict.BROKEN else _scope(plan, made, part, calls)
    finally:
        made.close()
    return JudgedLimits((part,), tuple(scope), ended), calls


def _find(plan: ProbePlan, prober: Prober, until: Micros, calls: list[LimitedCall]) -> list[RateQuota]:
    """Find the limit. Raises BadInput where no call was refused."""
    quotas: list[RateQuota] = []

    def program() -> Probing:
        seen, met = yield from find_quotas(prober.clock.now(), plan.most, until, plan.refusals)
        calls.extend(seen)
        quotas.extend(met)

    try:
        prober.play(program())
    except HarmedError as harm:
        raise BadInput(f"{plan.endpoint.url}: {harm}; probing ended") from None
    _answered(plan, calls)
    if not quotas:
        statuses = ", ".join(map(str, plan.refusals))
        raise BadInput(
            f"{plan.endpoint.url}: expected a limit to be met; of {len(calls)} calls none was refused with "
            f"{statuses} and admitted again. Say --limit, --refused, or more --time and --max-calls"
        )
    return quotas


def _answered(plan: ProbePlan, calls: Sequence[LimitedCall]) -> None:
    """Raise BadInput where no call was admitted."""
    if calls and not any(call.outcome(plan.refusals) == ADMITTED for call in calls):
        first = calls[0].status
        what = "was not answered" if first is None else f"answered {first}"
        raise BadInput(f"{plan.endpoint.url}: expected an answer from 200 to 399, and it {what}")


def _probed(
    plan: ProbePlan, prober: Prober, quotas: Sequence[RateQuota], until: Micros, calls: list[LimitedCall]
) -> tuple[LimitOf, str]:
    """Probe the likeliest limit; where that turns out broken, the next that it may be."""
    if not calls:
        calls += prober.volley(Volley(prober.clock.now(), 1))
        _answered(plan, calls)
    ended, parts = "", []
    for quota in quotas:
        probes = Probes(
            quota.limit,
            quota.length,
            plan.most,
            until,
            Random(plan.seed),
            plan.refusals,
            exclusive=not plan.shared,
            calls=calls,
        )
        idle = IDLE if len(calls) > 1 else 0.2
        try:
            prober.play(probes.program(prober.clock.now() + round(idle * quota.length)))
        except HarmedError as harm:
            ended = f"at a sign of harm: {harm}"
        ended = ended or ENDED.get(probes.ended, "")
        part = judge_part("", calls, quota, refused=plan.refusals, shared=plan.shared)
        parts.append(part)
        if ended or part.judged.verdict != LimitVerdict.BROKEN:
            return part, ended
    return parts[0], ended


def _scope(plan: ProbePlan, prober: Prober, part: LimitOf, calls: list[LimitedCall]) -> list[tuple[str, str]]:
    """Reach the limit, then call as each other, and as ourselves: who is refused shares it."""
    answers = []
    for name, other in plan.further.items():
        start = prober.clock.now() + round(IDLE * part.quota.length)
        ours = prober.volley(Volley(start, part.quota.limit + 2, MOST_LANES))
        theirs = prober.volley(Volley(0, SCOPE_CALLS), other)
        again = prober.volley(Volley(0, 1))
        calls += [*ours, *again]
        refused = [call.outcome(plan.refusals) == REFUSED for call in theirs]
        full = again[0].outcome(plan.refusals) == REFUSED
        if not any(refused) and full:
            text = f"{name} has a limit of its own"
        elif all(refused) and full:
            text = f"{name} shares the limit"
        else:
            text = f"whether {name} shares the limit stays open"
        answers.append((name, text))
    return answers


def as_trace(calls: Sequence[LimitedCall], url: str) -> Trace:
    """Return calls as a trace, without what was sent in their headers."""
    parts = urlsplit(url)
    header = Header(
        started=calls[0].sent,
        targets={"production": f"{parts.scheme}://{parts.netloc}"},
        keys={"key-1": TraceKey(environment="production")},
        exclusive=True,
        capture="complete",
    )
    exchanges = [
        Exchange(
            id=call.id,
            sent=call.sent,
            received=None if call.status is None else call.done,
            operations=(),
            method=call.method,
            path=call.path,
            api_key="key-1",
            status=call.status,
            response_headers=safe_headers(call.headers) if call.status else {},
        )
        for call in calls
    ]
    return Trace(header, exchanges)
