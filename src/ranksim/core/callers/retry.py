"""How a caller behaves: it waits when it is put off, repeats what was lost, and walks a list to its end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from ranksim.core.callers.steps import Pause, Received, Send
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.service.operations import OPERATIONS

LONGEST_WAIT = 120 * SECOND
"""The longest Retry-After that `politely` waits for; a call that is put off longer it gives up."""

MOST_PAGES = 25
"""Pages of one list that `pages` reads unless told otherwise."""

IN_FLIGHT = SECOND // 4
"""How long to wait for the first sending of a POST whose repeat was answered "in progress" (U18)."""

OnLimit = Literal["obey", "backoff", "ignore"]


# Being put off


def is_limited(answer: Received) -> bool:
    """Return whether a reply is a refusal of the rate limit (S100), whatever status that has (U19-U23)."""
    if answer.status < 400:
        return False
    code = answer.body.get("code", "") if isinstance(answer.body, dict) else ""
    return bool(code == "rate_limited" or (answer.status == 429 and code not in CHECK_OF))


def is_repeatable(send: Send) -> bool:
    """Return whether a lost call may be sent again without doing its work twice (RFC 9110, 9.2.2; S47)."""
    return send.idempotency_key is not None or OPERATIONS[send.operation].method not in ("POST", "PATCH")


def parse_retry_after(answer: Received) -> Micros | None:
    """Parse Retry-After, whole seconds or an HTTP-date (U6): µs to wait after the reply; None without one."""
    seconds = _whole_seconds(answer)
    if seconds is not None:
        return seconds * SECOND
    try:
        until = parsedate_to_datetime(answer.header("retry-after"))
        seconds = int(until.replace(tzinfo=until.tzinfo or UTC).timestamp())
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0, seconds * SECOND - answer.received)


def bounded_wait(answer: Received) -> Micros:
    """Return how long load profiles wait after a refusal, in µs, from a second to `LONGEST_WAIT`.

    A date counts as one second: load profiles go by the deployment's word, not by two clocks that may differ.
    """
    seconds = _whole_seconds(answer)
    return SECOND if seconds is None else min(max(seconds, 1) * SECOND, LONGEST_WAIT)


def puts_off_too_long(answer: Received) -> bool:
    """Return whether a refusal says to come back later than anybody here waits for."""
    seconds = _whole_seconds(answer)
    return answer.status == 429 and seconds is not None and seconds * SECOND > LONGEST_WAIT


def _whole_seconds(answer: Received) -> int | None:
    text = answer.header("retry-after")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 13 else None


@dataclass(frozen=True, slots=True)
class Manners:
    """What a client does when the rate limit refuses it, or when it gets no reply.

    `on_limit`: "obey" waits as long as Retry-After says, "backoff" waits a draw below `retry_every`, doubled
    with each try up to `backoff_max`, "ignore" tries again after `retry_every` whatever the reply says.
    `max_tries` counts the first try; 1 never tries again. A call without a reply is tried again like one that
    was refused without Retry-After, if its repeat can do no harm.
    """

    on_limit: OnLimit = "obey"
    max_tries: int = 5
    retry_every: Micros = SECOND
    backoff_max: Micros = 5 * MINUTE

    def patience(
        self, send: Send, answer: Received, tries: int, jitter: Callable[[int], float]
    ) -> Micros | None:
        """Return how long to wait before the next try (µs), or None where the client takes the answer.

        `tries` were made; `jitter` draws from [0, 1) for a try's number.
        """
        if tries >= self.max_tries:
            return None
        if answer.status == 0:
            insists = is_repeatable(send)
        else:
            # A repeat may find its lost first sending still in flight (U18).
            insists = is_limited(answer) or (
                answer.status == 409 and answer.code == "idempotency_in_progress"
            )
        if not insists:
            return None
        match self.on_limit:
            case "obey":
                wait = parse_retry_after(answer) if answer.status else self.retry_every
                return SECOND if wait is None else wait
            case "backoff":
                # Full jitter: anything from nothing to twice as much as the time before.
                ceiling = min(self.backoff_max, self.retry_every << min(tries - 1, 40))
                return round(jitter(tries) * ceiling)
            case _:
                return self.retry_every


def insistently(
    send: Send, manners: Manners, jitter: Callable[[int], float]
) -> Generator[Any, Any, Received]:
    """Send, and send again what was refused by the rate limit or lost, as a client's manners say.

    Return the last answer.
    """
    tries = 1
    while True:
        answer: Received = yield send
        wait = manners.patience(send, answer, tries, jitter)
        if wait is None:
            return answer
        del answer  # In a retry storm hundreds wait at once; none needs to keep its refusal.
        yield Pause(wait)
        tries += 1


def politely(send: Send, tries: int = 4) -> Generator[Any, Any, Received]:
    """Send, and send again what was put off or lost, as long as that is harmless; return the last answer.

    So do load profiles; clients of a scenario go by its `Manners` instead (`programs.client.Client.ask`).
    A 429 is repeated when Retry-After has passed; where that is longer than `LONGEST_WAIT` it is the answer,
    after a second without any call. A lost read is repeated at once, and so is a lost POST with an
    Idempotency-Key, which may find its first sending in flight (U18).
    """
    repeatable = send.idempotency_key is not None or OPERATIONS[send.operation].method == "GET"
    answer: Received = yield send
    for _ in range(tries - 1):
        if puts_off_too_long(answer):
            yield Pause(SECOND)
            break
        if answer.status == 429:
            yield Pause(bounded_wait(answer))
        elif answer.status == 409 and answer.code == "idempotency_in_progress":
            yield Pause(IN_FLIGHT)
        elif answer.status != 0 or not repeatable:
            break
        answer = yield send
    return answer


# Lists


def next_page(send: Send, answer: Received) -> Send | None:
    """Return the request for the page after a reply's, or None where the list ends (S44)."""
    cursor = answer.cursor
    return None if cursor is None else replace(send, query={**send.query, "cursor": cursor})


def pages(first: Send, most: int = MOST_PAGES) -> Generator[Any, Any, list[Any]]:
    """Walk a list in the largest pages, at most so many, and return its items."""
    items: list[Any] = []
    send: Send | None = replace(first, query={"limit": "200", **first.query})
    for _ in range(most):
        if send is None:
            break
        answer = yield from politely(send)
        items += answer.data if isinstance(answer.data, list) else []
        send = next_page(send, answer)
    return items
