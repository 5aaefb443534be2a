"""Running a program for real: its steps become calls, waits and paths of the webhook receiver."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ranksim.core.callers.steps import Lap, Listen, Pause, Program, Send, Spawn, Until
from ranksim.core.clock import SECOND, Micros
from ranksim.judge.load.receiving import ReceiverClient
from ranksim.judge.load.session import CallOutcome, Session


def drive(
    program: Generator[Any, Any, Any],
    session: Session,
    receiver: ReceiverClient | None = None,
    *,
    on_call: Callable[[Send, CallOutcome], None] | None = None,
    idle: Callable[[], AbstractContextManager[Any]] = nullcontext,
    stopped: Callable[[], bool] = lambda: False,
    spawn: Callable[[Program], None] | None = None,
    on_lap: Callable[[], bool] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Any:
    """Run a program to its end and return what it returns; None when it was stopped.

    Nothing is done after the last instant of the session, and no wait is longer.
    `on_call` is handed every call, `idle` surrounds every wait, and `stopped` is asked before every step.
    `spawn` begins a program beside this one, with a session of its own; without it such steps are refused.
    `on_lap` is told that the program has been once through, and says whether it shall go on. `sleep` waits
    for so many seconds, or less where the program is to be stopped.
    """
    clock = session.recorder.clock
    answer: Any = None
    try:
        while not stopped() and clock.now() <= session.until:
            step = program.send(answer)
            if isinstance(step, Send):
                outcome = session.perform(step)
                if on_call is not None:
                    on_call(step, outcome)
                answer = outcome.received
            elif isinstance(step, Spawn):
                assert spawn is not None, "a program that does several things at once needs spawn"
                answer = spawn(step.program)
            elif isinstance(step, Listen):
                answer = "" if receiver is None else receiver.listen(step.script)
            elif isinstance(step, Lap):
                answer = None
                if on_lap is not None and not on_lap():
                    return None
            else:
                with idle():
                    answer = _wait(step, session, sleep)
    except StopIteration as end:
        return end.value
    finally:
        program.close()
    return None


def _wait(step: Pause | Until, session: Session, sleep: Callable[[float], object]) -> Micros:
    now = session.recorder.clock.now
    until = step.instant if isinstance(step, Until) else now() + step.duration
    if (left := min(until, session.until) - now()) > 0:
        sleep(left / SECOND)
    return now()
