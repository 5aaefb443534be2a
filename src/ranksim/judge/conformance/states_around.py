"""What a patched field and an Idempotency-Key could have been around an exchange: the states that are run.

Before it are those that its partition may be in as it was sent, after it those as it was answered: by all
calls until then, whichever of those in flight have taken effect, and under each choice that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ranksim.judge.conformance.calls.idempotency import IdempotencyJudge
from ranksim.judge.conformance.calls.stored_replies import KeyState, key_starts, stored_after
from ranksim.judge.conformance.calls.updates import FieldState, PatchedField, UpdateJudge
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.possible import ModelCall, Possible, State, Step
from ranksim.judge.conformance.verdict.options import Options


def state_lines(history: History, at: Observation) -> Iterator[str]:
    """Tell in lines what the fields of its resource, and what is kept under its key, could have been."""
    options = Options.of()
    updates, keys = UpdateJudge(options), IdempotencyJudge(options)
    for seen in history.as_judged():
        for judge in (updates, keys):
            if judge.wants(seen):
                judge.see(seen)
    for name, resource in updates.resources.items() if history.run.exclusive else ():
        for patched in updates.fields(resource):
            mutated = patched.mutated or history.run.mutable(*name[-2:])
            if at.id in patched.numbers and not mutated:
                yield f"  {patched.name} by its PATCHes:"
                start, step = [FieldState()], patched.model.step
                yield from _around(patched.calls(), start, step, at, partial(_value, patched))
    kin = keys.posts.get((at.environment, at.idempotency_key or ""), ())
    group = keys.group(at.key, at.surface, kin, history.run) if kin and history.run.rate else None
    if group is not None and not group.hidden:
        yield f"  kept under {group.about}:"
        starts = key_starts(options, at.surface)
        yield from _around(group.calls(), starts, stored_after, at, _kept)


def _around(
    calls: Sequence[ModelCall],
    starts: Sequence[State],
    step: Step[State],
    at: Observation,
    text: Callable[[State], str],
) -> Iterator[str]:
    for label, instant in (("before", at.sent), ("after", at.received + 1)):
        possible = Possible(starts, step)
        for call in calls:
            if call.sent < instant:
                possible.add(call)
        all(True for _ in possible.pass_to(instant))
        states = sorted(set(map(text, possible.reachable)))
        yield f"    {label}: {' or '.join(states) or 'too many calls met at once to tell'}"


def _value(patched: PatchedField, state: FieldState) -> str:
    if state.requested < 0:
        return "not patched yet"
    value = patched.model.values[state.requested if state.left < 0 else state.left]
    return f"{value!r}" + ("" if state.exact or state.left >= 0 else " as the deployment writes it")


def _kept(state: KeyState) -> str:
    made = sorted(
        answer.made or answer.code or "a reply" for entry in state.entries for answer in entry.answers
    )
    return " and ".join(made) or ("a reply not seen" if state.entries else "nothing")
