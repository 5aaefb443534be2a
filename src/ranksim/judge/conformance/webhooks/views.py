"""Judge what the API says of webhooks: the attempts that it lists, the secrets and reasons that it shows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.judge import evidence_of
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Requirement, Rule
from ranksim.judge.conformance.verdict.verdicts import Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    EndpointHistory,
    ObservedEndpoint,
    attempt_evidence,
    secret_of,
)

LISTED = "webhook.listed"
SECRET = "webhook.secret_once"
REASON = "webhook.disabled_reason"

VIEW_RULES = (
    Rule(
        LISTED,
        "webhook-deliveries tells each attempt's status as answered",
        (40,),
        (75,),
        ways=(Breach(40, "a {} is listed as another status", "{}", ("2xx", "3xx", "4xx", "5xx")),),
        needs=(Requirement.DELIVERY_LIST,),
    ),
    Rule(
        SECRET,
        "A signing secret is told at creation only",
        (21,),
        (73,),
        ways=(
            Breach(21, "the secret is shown when the endpoint is read", "webhooks.get"),
            Breach(21, "the secret is shown in the list", "webhooks.list"),
            Breach(21, "the secret is shown after a PATCH", "webhooks.update"),
        ),
    ),
    Rule(
        REASON,
        "A disabled endpoint shows the reason",
        (22,),
        (73,),
        exercise="webhooks-long",
        ways=(Breach(22, "a disabled endpoint shows no reason"),),
        needs=(Requirement.ENDPOINT_LIST,),
    ),
)


def judge_listed(came: Sequence[ReceivedAttempt], ledger: EndpointHistory, tally: Tally) -> None:
    """What was answered well within the time limit is listed with that status.

    An answer near the limit may have come too late (S88), so only one that took less than half of it counts;
    so does only an attempt that came once, as a sender may make one again (S93).
    """
    times = Counter(arrived.key for arrived in came)
    for arrived in came:
        attempt = ledger.listed.attempts.get(arrived.key)
        if attempt is None or arrived.answered is None or arrived.status is None or times[arrived.key] > 1:
            continue
        if arrived.answered - arrived.received > ledger.facts.webhook_timeout // 2:
            tally.open(LISTED, "the answer took long, so that the sender may have given up")
        elif attempt.status is None:
            tally.open(LISTED, "the sender lists no answer: it was on its way, or was lost")
        else:
            says = (
                f"attempt {arrived.attempt} was answered {arrived.status} and is listed as {attempt.status}"
            )
            evidence = attempt_evidence(says, arrived, exchanges=(attempt.seen.id,))
            case = f"{arrived.status // 100}xx"
            tally.check(LISTED, attempt.status == arrived.status, evidence, case=case)


def judge_shown_secrets(
    calls: Iterable[Observation], endpoints: Mapping[str, ObservedEndpoint], tally: Tally
) -> None:
    """No reading shows the secret that the creation showed (S21); another text may be a masked one."""
    for seen in calls:
        if seen.operation not in ("webhooks.get", "webhooks.list", "webhooks.update"):
            continue
        for thing in ([seen.data] if isinstance(seen.data, dict) else seen.items or ()) if seen.ok else ():
            secret = secret_of(thing) if isinstance(thing, dict) else None
            endpoint = endpoints.get(str(thing.get("id"))) if isinstance(thing, dict) else None
            if not secret:
                tally.held(SECRET, case=seen.operation, by=(seen.id,))
            elif endpoint is None or endpoint.secret != secret or endpoint.created is None:
                tally.open(SECRET, "a secret is shown that may be masked")
            else:
                says = f"{seen.id} shows the secret of {endpoint.id} again"
                evidence = evidence_of(says, endpoint.created, seen, about=endpoint.id)
                tally.broke(SECRET, evidence, case=seen.operation)


def judge_reason(endpoint: ObservedEndpoint, exclusive: bool, tally: Tally) -> None:
    """An endpoint that was disabled by its failures shows why; where, is assumed (S22, U73).

    An endpoint that a call may have disabled breaks nothing, with a reason or without.
    """
    for setting in endpoint.settings:
        if setting.enabled is not False:
            continue
        untouched = setting.seen.received <= endpoint.untouched_until
        by_failures = exclusive and endpoint.settings[0].enabled is True and untouched
        says = f"{setting.seen.id} shows endpoint {endpoint.id} disabled, without a reason"
        evidence = evidence_of(says, setting.seen, about=endpoint.id)
        if setting.reason:
            tally.held(REASON, case=ANY if by_failures else None, by=(setting.seen.id,))
        elif setting.reason is None:
            tally.differs(73, "disabled_reason", "no such field", evidence)
        elif by_failures:
            tally.broke(REASON, evidence)
