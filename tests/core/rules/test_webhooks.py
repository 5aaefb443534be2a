"""Who gets an event, what is sent, how it is signed, what counts as received, when it is tried again."""

import json

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import EVENT_TYPES, Facts
from ranksim.core.rules.webhooks import (
    JITTER,
    acknowledged,
    headers,
    matches,
    payload,
    retry_at,
    sign,
    verify,
)

FACTS = Facts()
SECRET = "whsec_6f1d"
T = 1_772_323_200
JOB = {
    "id": "job_1",
    "kind": "crawl",
    "status": "failed",
    "domain_id": "dom_1",
    "error_detail": "zażółć ✓",
    "finished_at": "2026-03-01T00:00:00Z",
}
BODY = payload("evt_1", "job.failed", T * SECOND, {"job": JOB}).encode()


@pytest.mark.fact("S18", "S19", "S20", "S115", "E29")
@pytest.mark.parametrize(
    ("enabled", "event_types", "bound_to", "event_type", "domain", "gets"),
    [
        (True, [], None, "job.completed", "dom_1", True),
        (True, [], None, "domain.verified", "dom_1", True),
        (True, list(EVENT_TYPES), None, "job.failed", "dom_1", True),
        (True, list(EVENT_TYPES), None, "domain.verified", "dom_1", False),
        (True, ["job.failed"], None, "job.completed", "dom_1", False),
        (True, [], "dom_1", "job.completed", "dom_1", True),
        (True, [], "dom_1", "job.completed", "dom_2", False),
        (True, [], "dom_1", "account.changed", None, False),
        (False, [], None, "job.completed", "dom_1", False),
    ],
)
def test_matches(
    enabled: bool, event_types: list[str], bound_to: str | None, event_type: str, domain: str, gets: bool
) -> None:
    assert matches(enabled, event_types, bound_to, event_type, domain) is gets


@pytest.mark.fact("S82", "S83")
def test_the_body_is_compact_and_names_the_job() -> None:
    assert json.loads(BODY) == {
        "id": "evt_1",
        "type": "job.failed",
        "created_at": "2026-03-01T00:00:00Z",
        "data": {"job": JOB},
    }
    assert b'"id":"evt_1","type":"job.failed",' in BODY
    assert "zażółć ✓".encode() in BODY


@pytest.mark.fact("S78", "S79", "S80", "S81", "S77")
def test_headers() -> None:
    assert headers(SECRET, T, BODY, "evt_1", "job.failed", 3) == {
        "Content-Type": "application/json",
        "Service-Signature": sign(SECRET, T, BODY),
        "Service-Event-Id": "evt_1",
        "Service-Event-Type": "job.failed",
        "Service-Delivery-Attempt": "3",
    }


@pytest.mark.fact("S84", "S85")
def test_a_known_signature() -> None:
    """The digest is what `openssl dgst -sha256 -hmac whsec_test` makes of the signed string."""
    digest = "c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925"
    assert sign("whsec_test", 1_700_000_000, b'{"id":"evt_1"}') == f"t=1700000000,v1={digest}"


def judge(header: str, body: bytes, now: int, secret: str = SECRET) -> bool:
    """What an independent receiver says, at Unix second `now`."""
    import stripe

    with time_machine.travel(now, tick=False):
        try:
            return stripe.WebhookSignature.verify_header(body.decode(), header, secret, 300)
        except stripe.SignatureVerificationError:
            return False


REFORMATTED = json.dumps(json.loads(BODY)).encode()
ESCAPED = json.dumps(json.loads(BODY), separators=(",", ":")).encode()
HEADER = sign(SECRET, T, BODY)


@pytest.mark.fact("S78", "S84", "S85", "S86", "E33", "E34")
@pytest.mark.parametrize(
    ("header", "body", "now", "accepted"),
    [
        (HEADER, BODY, T, True),
        (HEADER, BODY, T + 299, True),
        (HEADER, BODY, T + 302, False),
        (HEADER, BODY.replace(b"crawl", b"scans"), T, False),
        (HEADER, REFORMATTED, T, False),
        (HEADER, ESCAPED, T, False),
        (f"t={T},v1={HEADER.partition('v1=')[2].upper()}", BODY, T, False),
        (HEADER.replace(f"t={T}", f"t={T + 1}"), BODY, T, False),
        ("", BODY, T, False),
        ("t=soon,v1=00", BODY, T, False),
    ],
)
def test_an_independent_receiver_agrees(header: str, body: bytes, now: int, accepted: bool) -> None:
    assert judge(header, body, now) is accepted
    assert verify(SECRET, header, body, now) is accepted


@given(
    # The oracle refuses a blank secret before it looks at the signature.
    st.text(min_size=1, max_size=30).filter(str.strip),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4),
)
def test_any_body_that_is_signed_is_accepted(secret: str, job: dict[str, str]) -> None:
    body = payload("evt_1", "job.failed", T * SECOND, {"job": job}).encode()
    assert judge(sign(secret, T, body), body, T, secret)
    assert verify(secret, sign(secret, T, body), body, T)


@pytest.mark.fact("S86", "U77", "E34")
@pytest.mark.parametrize(
    ("age", "accepted"),
    [(0, True), (299, True), (300, True), (301, False), (-299, True), (-301, False), (-(10**9), False)],
)
def test_the_tolerance_has_two_sides(age: int, accepted: bool) -> None:
    assert verify(SECRET, HEADER, BODY, T + age) is accepted


@pytest.mark.parametrize(
    "header", [f"{HEADER} ", f"x{HEADER}", f"t={T},v1=é", f"t={'9' * 5000},v1=00", f"t={T}"]
)
def test_an_odd_header_is_refused(header: str) -> None:
    assert not verify(SECRET, header, BODY, T)


def test_another_secret_is_refused() -> None:
    assert not verify(SECRET + "0", HEADER, BODY, T)


@pytest.mark.fact("S87", "S88", "S89", "E24", "U71")
@pytest.mark.parametrize(
    ("status", "duration", "success"),
    [
        (200, 0, True),
        (204, SECOND, True),
        (299, 10 * SECOND, True),
        (200, 10 * SECOND + 1, False),
        (200, 10_100_000, False),
        (199, 0, False),
        (300, 0, False),
        (301, 0, False),
        (308, 0, False),
        (410, 0, False),
        (429, 0, False),
        (500, 0, False),
        (None, 0, False),
    ],
)
def test_only_a_2xx_in_time_acknowledges(status: int | None, duration: int, success: bool) -> None:
    assert acknowledged(status, duration, FACTS) is success


def schedule(assumptions: Assumptions, lag: int, draw: int = 0) -> list[int]:
    """Instants of all attempts when each fails `lag` after it was made; the first is made at 0."""
    made = [0]
    first_failed_at = lag
    while True:
        failed_at = made[-1] + lag
        due = retry_at(len(made), failed_at, first_failed_at, draw, FACTS, assumptions)
        if due is None:
            return made
        made.append(due)


@pytest.mark.fact("S90", "U67")
@pytest.mark.parametrize(
    ("retry_from", "lag", "minutes"),
    [
        ("failure", 0, [0, 1, 6, 36, 156, 516]),
        ("failure", MINUTE, [0, 2, 8, 39, 160, 521]),
        ("first_attempt", 0, [0, 1, 6, 36, 156, 516]),
        ("first_attempt", MINUTE, [0, 2, 7, 37, 157, 517]),
        ("first_attempt", HOUR, [0, 61, 121, 181, 241, 576]),
    ],
)
def test_six_attempts_over_about_eight_hours(retry_from: str, lag: int, minutes: list[int]) -> None:
    assumptions = Assumptions.model_validate({"retry_from": retry_from})
    assert [due // MINUTE for due in schedule(assumptions, lag)] == minutes


@pytest.mark.fact("U67")
@pytest.mark.parametrize(
    ("draw", "due"), [(-JITTER, 54), (-JITTER // 2, 57), (0, 60), (JITTER // 2, 63), (JITTER, 66)]
)
def test_jitter_goes_both_ways(draw: int, due: int) -> None:
    jittered = Assumptions(retry_jitter_percent=10)
    assert retry_at(1, 0, 0, draw, FACTS, jittered) == due * SECOND
    assert retry_at(1, 0, 0, draw, FACTS, Assumptions()) == 60 * SECOND
