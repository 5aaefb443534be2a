"""Webhook receivers: what their scripts answer, whether a signature verifies, and when they are down."""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from ranksim.core.clock import SECOND, Micros, duration, format_duration
from ranksim.core.contract.quantities import Distribution
from ranksim.core.draws import Purpose, uniform
from ranksim.core.errors import BadInput, read_at
from ranksim.core.rules import webhooks

AnswerT = TypeVar("AnswerT")

_STEP = re.compile(r"([1-5][0-9]{2}|timeout)(?::(\S+?))?(?:\+([0-9a-z.]+))?")
_SIGNED_AT = re.compile(r"t=([0-9]{1,15}),")


# Scripts


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """What the receiver does with one attempt: `status` after `delay` µs; None never answers.

    `location` is sent as it stands, so that a 302 with one is a redirect.
    """

    status: int | None = 200
    delay: Micros = 0
    location: str = ""

    @classmethod
    def of(cls, step: AnswerStep | int | str) -> AnswerStep:
        """Parse 500, "500", "200+2s", "302:/elsewhere", "302:/elsewhere+2s" or "timeout". Raises BadInput."""
        if isinstance(step, AnswerStep):
            return step
        match = _STEP.fullmatch(str(step).strip())
        if match is None:
            raise BadInput(
                f"script: expected a status such as 500, 200+2s, 302:/elsewhere or timeout, found {step!r}"
            )
        status, location, delay = match.groups()
        waits = read_at("script", duration, delay) if delay else 0
        return cls(None if status == "timeout" else int(status), waits, location or "")

    def __str__(self) -> str:
        status = "timeout" if self.status is None else str(self.status)
        location = f":{self.location}" if self.location else ""
        return f"{status}{location}" + (f"+{format_duration(self.delay)}" if self.delay else "")


def read_script(text: str) -> tuple[AnswerStep, ...]:
    """Parse a script such as "500,200+11s,302:/elsewhere,timeout". Raises BadInput."""
    return tuple(AnswerStep.of(step) for step in text.split(","))


def by_attempt(script: Sequence[AnswerT], number: int) -> AnswerT:
    """Return a script's answer to an attempt, numbered from 1: one each, the last for all further ones."""
    return script[min(number, len(script)) - 1]


# Signatures


def signed_at(signature: str) -> int | None:
    """Parse the Unix second of a Service-Signature (S78)."""
    match = _SIGNED_AT.match(signature)
    return int(match[1]) if match else None


def verify_any(
    secrets: Iterable[str],
    signature: str,
    body: bytes,
    *,
    now: Micros = 0,
    tolerance: int | None = None,
    others: Iterable[str] = (),
    earlier: Iterable[int] = (),
) -> tuple[bool | None, str]:
    """Verify a Service-Signature with any of an endpoint's secrets: whether it is valid, else why not (S78).

    None without a secret. `tolerance` is its greatest age at `now`, in seconds; None takes any (S86). Why not
    is sought with `others`, the secrets of other endpoints, and `earlier`, the seconds at which the attempts
    before it of its event were signed.
    """
    secrets = list(secrets)
    if not secrets:
        return None, ""
    if not signature:
        return False, "no Service-Signature"
    second = signed_at(signature)
    malformed = "the Service-Signature is not t=<seconds>,v1=<digest>"
    if second is not None and any(webhooks.verify(secret, signature, body, second) for secret in secrets):
        age = abs(now // SECOND - second)
        if tolerance is not None and age > tolerance:
            return False, f"signed {age} s from now, tolerance {tolerance} s"
        return True, ""
    mistake = _mistake(secrets, others, signature, body, earlier)
    if second is None:
        return False, f"{malformed}; {mistake}" if mistake else malformed
    return False, mistake or UNEXPLAINED


UNEXPLAINED = "none of the usual mistakes gives this digest"

_DIGEST = re.compile(r"[0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=")


def _mistake(
    secrets: Sequence[str], others: Iterable[str], signature: str, body: bytes, earlier: Iterable[int]
) -> str:
    """Say of which usual mistakes a digest comes, the fewest that explain it; "" where none do.

    Secrets of other endpoints, of which there may be many, are tried over what should have been signed.
    """
    digest, t = _DIGEST.search(signature), re.search(r"\bt=([0-9]{1,15})\b", signature)
    if digest is None:
        return ""
    own = dict.fromkeys(secrets, "")
    bare = {secret.removeprefix("whsec_"): ", with the secret without its prefix" for secret in secrets}
    foreign = dict.fromkeys({*others} - {*secrets}, ", with the secret of another endpoint")
    prefixes = {b"%b." % t[1].encode(): ""} if t else {}
    prefixes |= {b"%d." % second: ", with the t of an attempt before it" for second in earlier} | prefixes
    prefixes[b""] = ", without t"
    bodies = _rewritten(body)
    tried = [(bare | own, prefixes, bodies), (foreign, prefixes, {body: ""})]
    for keys, beginnings, contents in tried:
        fits = [
            (bool(key) + bool(stamp) + bool(form) + bool(written), form, stamp, key, written)
            for secret, key in keys.items()
            for beginning, stamp in beginnings.items()
            for content, form in contents.items()
            for text, written in _writings(hmac.new(secret.encode(), beginning + content, "sha256").digest())
            if text == digest[0]
        ]
        if fits:
            _, form, stamp, key, written = min(fits)
            return f"it is what HMAC-SHA256 gives over the {form or 'raw body'}{stamp}{key}{written}"
    return ""


def _writings(digest: bytes) -> Iterator[tuple[str, str]]:
    """Return a digest as it may be written, and in what, but for lower-case hex."""
    yield digest.hex(), ""
    yield digest.hex().upper(), ", in upper-case hex"
    yield b64encode(digest).decode(), ", in base64"


def _rewritten(body: bytes) -> dict[bytes, str]:
    """Return a body as it came, and as programs write its JSON anew, each with what that is."""
    forms = dict[bytes, str]()
    with suppress(ValueError, RecursionError):
        value = json.loads(body)
        for (form, style), ordered, escaped in product(JSON_STYLES.items(), (True, False), (True, False)):
            text = json.dumps(value, ensure_ascii=escaped, sort_keys=ordered, **style)
            name = f"body written anew as {form}{', its keys sorted' * ordered}"
            forms[text.encode(errors="surrogatepass")] = name
    return forms | {body: ""}


JSON_STYLES: dict[str, dict[str, Any]] = {
    "indented JSON": {"indent": 2},
    "JSON with spaces": {},
    "compact JSON": {"separators": (",", ":")},
}


# Outages


class Outages:
    """When a receiver is down: in stretches that are planned, and at random. Ask it in order of time.

    `planned` are [begin, end) in µs. Random outages begin with an up time at `start`, drawn of `mtbf`, then a
    down time drawn of `mttr`, and so on; None has none. Draws are addressed by `seed`, the entity `who` and
    the count of random outages.
    """

    def __init__(
        self,
        planned: Iterable[tuple[Micros, Micros]] = (),
        *,
        mtbf: Distribution | None = None,
        mttr: Distribution | None = None,
        start: Micros = 0,
        seed: int = 0,
        who: int = 0,
    ) -> None:
        self._planned = tuple(planned)
        self._mtbf, self._mttr = mtbf, mttr
        self.seed, self._who = seed, who
        self._start = start
        self._broken = True
        self._turn = start  # when the random up or down time under way ends
        self._turns = 0

    def at(self, now: Micros) -> bool:
        """Return whether it is down at `now`, which never goes back."""
        broken = False
        if self._mtbf is not None and self._mttr is not None:
            while self._turn <= now:
                self._broken = not self._broken
                self._turn += self._drawn(self._turns // 2, repair=self._broken)
                self._turns += 1
            broken = self._broken
        return broken or any(begin <= now < end for begin, end in self._planned)

    def until(self, end: Micros) -> list[tuple[Micros, Micros]]:
        """Return the outages that begin before an instant, planned and at random, in no order."""
        outages = [stretch for stretch in self._planned if stretch[0] < end]
        if self._mtbf is None or self._mttr is None:
            return outages
        begin, index = self._start + self._drawn(0, repair=False), 0
        while begin < end:
            over = begin + self._drawn(index, repair=True)
            outages.append((begin, over))
            index += 1
            begin = over + self._drawn(index, repair=False)
        return outages

    def _drawn(self, index: int, *, repair: bool) -> Micros:
        """Draw how long the random outage of a number lasts, or the up time before it."""
        distribution, purpose = (self._mttr, Purpose.REPAIR) if repair else (self._mtbf, Purpose.OUTAGE)
        assert distribution is not None
        return distribution.at(uniform(self.seed, self._who, index, purpose))
