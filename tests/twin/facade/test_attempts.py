"""Attempts under way: which answer is reported next, and what becomes of those without one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from ranksim.core.service.calls import Answer, Attempt
from ranksim.core.service.events import AttemptAnswered
from ranksim.twin.facade.attempts import AttemptsUnderWay, count_answers


def attempt(number: int) -> Attempt:
    return Attempt(number, number, "whk_1", "acc_1", "https://a.example", "evt_1", "x", 1, {}, b"")


class Post:
    """A sender whose answers come when the test says so."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[Answer]] = {}
        self.told = 0
        self.attempts = AttemptsUnderWay(self.deliver, self.answered)

    def answered(self) -> None:
        self.told += 1

    async def deliver(self, one: Attempt) -> Answer:
        return await self.waiting.setdefault(one.attempt, asyncio.get_running_loop().create_future())

    async def send(self, *numbers: int) -> None:
        for number in numbers:
            self.attempts.add(attempt(number))
        self.attempts.send()
        await asyncio.sleep(0)

    async def answer(self, number: int) -> None:
        self.waiting[number].set_result(Answer(200))
        for _ in range(3):
            await asyncio.sleep(0)


def run(story: Callable[[Post], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(Post())

    asyncio.run(told())


@pytest.mark.parametrize(("ordered", "first"), [(True, None), (False, 2)])
def test_where_no_time_passes_answers_wait_for_their_turn(ordered: bool, first: int | None) -> None:
    async def story(post: Post) -> None:
        await post.send(1, 2)
        await post.answer(2)
        popped = post.attempts.pop_answered(ordered=ordered)
        assert (None if popped is None else popped[0].attempt) == first
        await post.answer(1)
        left = []
        while (popped := post.attempts.pop_answered(ordered=ordered)) is not None:
            left.append(popped[0].attempt)
        assert left == ([1, 2] if ordered else [1])
        assert not post.attempts
        assert post.told == 2

    run(story)


def test_what_was_stopped_is_sent_again_and_what_was_forgotten_is_not() -> None:
    async def story(post: Post) -> None:
        await post.send(1)
        await post.attempts.stop()
        assert [one.attempt for one in post.attempts.attempts()] == [1]
        post.waiting.clear()
        await post.send()
        assert list(post.waiting) == [1]
        post.attempts.forget()
        await asyncio.sleep(0)
        assert not post.attempts
        assert post.told == 0

    run(story)


def test_a_sender_that_fails_is_an_attempt_without_an_answer() -> None:
    async def story(post: Post) -> None:
        await post.send(1)
        post.waiting[1].set_exception(OSError("gone"))
        assert not await post.attempts.settle(asyncio.get_running_loop().time() - 1)
        await asyncio.sleep(0)
        popped = post.attempts.pop_answered(ordered=True)
        assert popped is not None
        assert popped[1] == Answer(None, "failed: OSError")

    run(story)


def test_outcomes_are_counted() -> None:
    counts: Counter[str] = Counter()
    rows = (("acknowledged", 200), ("retried", 500), ("exhausted", 404), ("cancelled", None))
    for outcome, status in rows:
        answered = AttemptAnswered(0, "acc_1", "whk_1", 1, 1, 1, outcome, status, None, None)
        count_answers(counts, [answered])
    assert counts == {"acknowledged": 1, "rejected": 2, "unanswered": 1}
