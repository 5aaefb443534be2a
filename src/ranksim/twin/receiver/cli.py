"""`ranksim serve receive`: a recording webhook receiver with scripted answers, on the command line."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.core.clock import iso
from ranksim.core.errors import BadInput
from ranksim.core.notes import ALONE
from ranksim.report.terminal import print_out, say
from ranksim.twin.serving.cli_options import ControlHost, ControlToken, Host, NoControlToken, command_of

if TYPE_CHECKING:
    from ranksim.twin.receiver.receiver import Received, Receiver


@dataclass(frozen=True, kw_only=True)
class ReceiveOptions:
    """What `ranksim serve receive` is told."""

    host: Host = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8090
    script: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[/PATH=]STEP,STEP",
            help="What to answer to the first attempt of each event, to the second, and so on; the last step "
            "stands for all further ones. A step is 500, 200+2s, 302:/moved or timeout. "
            "May be given once for each path.",
        ),
    ] = None
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[/PATH=]SECRET",
            help="Verify signatures with this signing secret; may be given several times.",
        ),
    ] = None
    tolerance: Annotated[
        int,
        typer.Option(
            min=-1, help="The greatest age of a signature in seconds of wall time; -1 takes any age."
        ),
    ] = 300
    strict: Annotated[
        bool, typer.Option("--strict", help="Answer 400 where the signature does not verify.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print deliveries as JSON Lines, as a trace has.")] = (
        False
    )
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Append every delivery to this file as a line of JSON, before it is answered and again once "
            "it is, and notes of stalls of the receiver itself.",
        ),
    ] = None
    control_token: ControlToken = ""
    no_control_token: NoControlToken = False
    control_host: ControlHost = None
    anchor: Annotated[
        int | None,
        typer.Option(
            metavar="MICROS",
            help="What to add to the monotonic clock for the instants to note down, so that several programs "
            "of one machine agree; usually wall time at the start.",
        ),
    ] = None
    with_parent: Annotated[
        bool,
        typer.Option(
            "--with-parent",
            help="Stop when standard input ends, as it does when the program that started it is gone.",
        ),
    ] = False

    def receiver(self) -> "Receiver":
        """Make the receiver, with its scripts and secrets. Raises BadInput."""
        from ranksim.twin.receiver.receiver import Receiver
        from ranksim.twin.serving.control_auth import chosen_token
        from ranksim.twin.serving.wall_clock import wall

        def anchored() -> int:
            return (self.anchor or 0) + time.monotonic_ns() // 1000

        receiver = Receiver(
            tolerance=None if self.tolerance < 0 else self.tolerance,
            strict=self.strict,
            clock=wall if self.anchor is None else anchored,
            token=chosen_token(self.control_token, none=self.no_control_token, host=self.host),
            control_names=self.control_host or (),
        )
        for path, steps in _scripts(self.script or ()).items():
            receiver.script(*steps.split(","), path=path)
        for text in self.secret or ():
            path, value = _of_path(text)
            if not value:
                raise BadInput(f"--secret: expected SECRET or /PATH=SECRET, found {text!r}")
            receiver.trust(value, path)
        return receiver


def _receive(options: ReceiveOptions) -> None:
    """Receive webhooks: record what comes, answer as scripted, verify signatures.

    What came can be read at /_receiver/requests, and scripts changed while it runs, by whoever sends the
    printed token: GET /_receiver says how.
    Stop it with Ctrl-C.

    Examples:

    \b
      ranksim serve receive --script 500,500,500,200
      ranksim serve receive --script /slow=200+11s --script /moved=302:/here --secret whsec_...
    """  # fmt: skip
    from ranksim.twin.receiver.receiver import CONTROL

    receiver = options.receiver()
    with _until_stopped() as stopped, _log_of(options.log) as write:
        record = _Record(write, stopped, as_json=options.json)
        receiver.came, receiver.heard = record.came, record.heard
        with receiver.start(options.host, options.port):
            receiver.watch(record.stalled)
            where = f"receiving at {receiver.url} and controlled at {receiver.url}{CONTROL}"
            by = f" by the bearer token {receiver.token}" if receiver.token else ""
            say(f"{where}{by}")
            if options.with_parent:

                def alone() -> None:
                    record.write({"kind": "note", "t": receiver.clock(), "text": ALONE})
                    stopped.set()

                threading.Thread(target=_after_end_of_input, args=(alone,), daemon=True).start()
            stopped.wait()
    if record.failures:
        raise record.failures[0]


receive = command_of(ReceiveOptions, _receive)


class _Record:
    """What is written of what came: lines of a log and of stdout, until they cannot be written."""

    def __init__(
        self, write: Callable[[Mapping[str, Any]], None], stopped: threading.Event, *, as_json: bool
    ) -> None:
        self._write, self._stopped, self._as_json = write, stopped, as_json
        self.failures: list[OSError] = []

    def write(self, line: Mapping[str, Any], printed: str = "") -> bool:
        try:
            self._write(line)
            if printed:
                print_out(f"{printed}\n")
        except OSError as error:  # the disk is full, or the reader of stdout is gone
            self.failures.append(error)
            self._stopped.set()
        return not self.failures

    def came(self, request: "Received") -> None:
        from ranksim.core.callers.receivers import AnswerStep

        if not self.write(request.to_dict()):
            request.step = AnswerStep(500)  # who sent it shall not take it for received

    def heard(self, request: "Received") -> None:
        line = request.to_dict()
        self.write(line, dumps(line) if self._as_json else _line_of(request))

    def stalled(self, t: int, late: int) -> None:
        self.write({"kind": "note", "t": t, "text": "the webhook receiver stalled", "stalled": late})


def _line_of(came: "Received") -> str:
    """A delivery in a line."""
    verdict = {None: "unverified", True: "valid", False: f"INVALID, {came.problem}"}[came.valid]
    answer = "no answer" if came.status is None else str(came.status)
    event = f"{came.event_type} {came.event_id} attempt {came.attempt}" if came.event_id else "no event"
    if "tolerance" in came.problem:
        verdict += ", which serve --signature-clock wall meets and --tolerance -1 ignores"
    return f"{iso(came.received)} {came.method} {came.path} {event}, signature {verdict}: {answer}"


def _scripts(texts: Iterable[str]) -> dict[str, str]:
    """Scripts by path. Raises BadInput where a path has two."""
    steps_of: dict[str, str] = {}
    for text in texts:
        path, steps = _of_path(text)
        if path in steps_of:
            where = "all paths" if path == "*" else path
            raise BadInput(
                f"--script: found {steps_of[path]!r} and {steps!r} for {where}; "
                "expected one script, its steps joined by commas"
            )
        steps_of[path] = steps
    return steps_of


def _of_path(text: str) -> tuple[str, str]:
    """Split "/hooks=500,200" into its path and the rest; without a path it is for all."""
    path, sign, rest = text.partition("=")
    return (path, rest) if sign and path.startswith("/") else ("*", text)


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that Ctrl-C and a TERM signal set."""
    stopped = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stopped.set()) for number in numbers]
    try:
        yield stopped
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _log_of(path: Path | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What appends a line of JSON to a file and hands it to the operating system; without a file, nothing."""
    if path is None:
        yield lambda line: None
        return
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise BadInput(f"--log: {path} cannot be written ({error.strerror}); give another path") from None
    with file:

        def write(line: Mapping[str, Any]) -> None:
            file.write(dumps(line).encode() + b"\n")

        yield write


def _after_end_of_input(done: Callable[[], None]) -> None:
    while os.read(0, 4096):  # a reader of sys.stdin could not be left behind at the end
        pass
    done()
