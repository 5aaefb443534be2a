"""Receivers: scripts, signatures and outages, without sockets."""

from __future__ import annotations

import hmac
from base64 import b64encode

import pytest

from ranksim.core.callers.receivers import AnswerStep, Outages, by_attempt, read_script, signed_at, verify_any
from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution
from ranksim.core.errors import BadInput
from ranksim.core.rules import webhooks


@pytest.mark.parametrize(
    ("said", "step"),
    [
        (500, AnswerStep(500)),
        ("204", AnswerStep(204)),
        ("timeout", AnswerStep(None)),
        ("timeout+1s", AnswerStep(None, SECOND)),
        ("200+1m500ms", AnswerStep(200, MINUTE + SECOND // 2)),
        ("302:/moved", AnswerStep(302, 0, "/moved")),
        ("308:https://example.org/a?b=c+2s", AnswerStep(308, 2 * SECOND, "https://example.org/a?b=c")),
        (" 201 ", AnswerStep(201)),
    ],
)
def test_a_step_is_read_and_written(said: int | str, step: AnswerStep) -> None:
    assert AnswerStep.of(said) == step
    assert AnswerStep.of(str(step)) == step


@pytest.mark.parametrize("said", ["", "99", "600", "200 ok", "200+", "200+2", "200+2y", "later", "200:", 7])
def test_a_wrong_step_is_refused(said: int | str) -> None:
    with pytest.raises(BadInput, match=r"^script: "):
        AnswerStep.of(said)


@pytest.mark.parametrize("text", ["", "200,", "abc", "200+", "600", "200+5", "timeout2"])
def test_a_script_that_says_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="script: "):
        read_script(text)


@pytest.mark.fact("S81")
def test_a_script_counts_by_attempt_and_its_last_step_stays() -> None:
    script = read_script("500, 302:/elsewhere+2s,timeout")
    statuses = [by_attempt(script, number).status for number in (1, 2, 3, 4, 99)]
    assert statuses == [500, 302, None, None, None]


SIGNED = 1_770_000_000
BODY = b'{"type":"job.completed"}'
SIGNATURE = webhooks.sign("whsec_1", SIGNED, BODY)


@pytest.mark.fact("S78", "S86")
@pytest.mark.parametrize(
    ("secrets", "signature", "late", "valid", "problem"),
    [
        ((), SIGNATURE, 0, None, ""),
        (("whsec_1",), SIGNATURE, 300, True, ""),
        (("whsec_2", "whsec_1"), SIGNATURE, -300, True, ""),
        (("whsec_1",), SIGNATURE, 301, False, "signed 301 s from now, tolerance 300 s"),
        (("whsec_2",), SIGNATURE, 0, False, "none of the usual mistakes gives this digest"),
        (("whsec_1",), "", 0, False, "no Service-Signature"),
        (("whsec_1",), "v1=00", 0, False, "the Service-Signature is not t=<seconds>,v1=<digest>"),
    ],
)
def test_a_signature_verifies_with_any_secret(
    secrets: tuple[str, ...], signature: str, late: int, valid: bool | None, problem: str
) -> None:
    now = (SIGNED + late) * SECOND
    assert verify_any(secrets, signature, BODY, now=now, tolerance=300) == (valid, problem)


SENT = '{"b": "é",\n "a": [1, 2.50]}'.encode()


def signed(
    payload: bytes, secret: str = "whsec_1", form: str = "t={t},v1={digest}", written: str = "hex"
) -> str:
    """Sign as a sender does that does not follow the rule."""
    digest = hmac.new(secret.encode(), payload, "sha256").digest()
    texts = {"hex": digest.hex(), "HEX": digest.hex().upper(), "base64": b64encode(digest).decode()}
    return form.format(t=SIGNED, digest=texts[written])


STAMP, EARLIER = b"%d." % SIGNED, b"%d." % (SIGNED - 60)


@pytest.mark.fact("S84", "S85")
@pytest.mark.parametrize(
    ("signature", "mistake"),
    [
        (signed(STAMP + '{"b":"é","a":[1,2.5]}'.encode()), "the body written anew as compact JSON"),
        (signed(STAMP + b'{"b": "\\u00e9", "a": [1, 2.5]}'), "the body written anew as JSON with spaces"),
        (
            signed(STAMP + '{"a":[1,2.5],"b":"é"}'.encode()),
            "the body written anew as compact JSON, its keys sorted",
        ),
        (
            signed(STAMP + '{\n  "b": "é",\n  "a": [\n    1,\n    2.5\n  ]\n}'.encode()),
            "the body written anew as indented JSON",
        ),
        (signed(SENT), "the raw body, without t"),
        (signed(STAMP + SENT, written="HEX"), "the raw body, in upper-case hex"),
        (signed(STAMP + SENT, written="base64"), "the raw body, in base64"),
        (signed(STAMP + SENT, "whsec_2"), "the raw body, with the secret of another endpoint"),
        (signed(STAMP + SENT, "1"), "the raw body, with the secret without its prefix"),
        (signed(EARLIER + SENT), "the raw body, with the t of an attempt before it"),
        (
            signed('{"b":"é","a":[1,2.5]}'.encode(), written="HEX"),
            "the body written anew as compact JSON, without t, in upper-case hex",
        ),
    ],
)
def test_the_usual_mistakes_of_signing_are_named(signature: str, mistake: str) -> None:
    valid, problem = verify_any(
        ["whsec_1"], signature, SENT, others=["whsec_2", "whsec_1"], earlier=[SIGNED - 60, SIGNED]
    )
    assert (valid, problem) == (False, f"it is what HMAC-SHA256 gives over {mistake}")


def test_a_header_of_another_form_may_hold_the_right_digest() -> None:
    for form in ("v1={digest},t={t}", "t={t};sha256={digest}"):
        _, problem = verify_any(["whsec_1"], signed(STAMP + SENT, form=form), SENT)
        assert problem == (
            "the Service-Signature is not t=<seconds>,v1=<digest>; "
            "it is what HMAC-SHA256 gives over the raw body"
        )


@pytest.mark.parametrize("body", [b"no JSON", b"[" * 100_000, b"\xff"])
def test_of_other_digests_no_mistake_is_named(body: bytes) -> None:
    problem = verify_any(["whsec_1"], signed(b"another body"), body, others=["whsec_2"])[1]
    assert problem == "none of the usual mistakes gives this digest"


def test_without_a_tolerance_any_age_will_do() -> None:
    assert verify_any(["whsec_1"], SIGNATURE, BODY) == (True, "")
    assert (signed_at(SIGNATURE), signed_at("t=soon,v1=0")) == (SIGNED, None)


def test_outages_are_known_or_drawn() -> None:
    known = Outages([(HOUR, 2 * HOUR)])
    assert [known.at(t) for t in (0, HOUR - 1, HOUR, 2 * HOUR - 1, 2 * HOUR)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    fixed = {"mtbf": Distribution.model_validate("10m"), "mttr": Distribution.model_validate("5m")}
    drawn = Outages([(12 * MINUTE, 16 * MINUTE)], **fixed)
    found = [drawn.at(minute * MINUTE) for minute in range(0, 31)]
    assert found == [minute % 15 >= 10 or 12 <= minute < 16 for minute in range(0, 31)]
