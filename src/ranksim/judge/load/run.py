"""One load run: what is done before the users begin and after they have ended, by one process for all.

That process, which Locust calls local or master, opens the run's directory, starts the webhook receiver,
finds out what can be exercised and reads the state before. At the end it resolves lost responses, reads the
state after, removes what the run created, and merges the parts of all processes into one trace.
"""

from __future__ import annotations

import json
import secrets
import shutil
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ranksim.core.addresses import LOOPBACK
from ranksim.core.callers.steps import Program
from ranksim.core.callers.target import Target
from ranksim.core.clock import DISTANT_FUTURE, MINUTE, Micros
from ranksim.core.errors import BadInput
from ranksim.core.files import check_file
from ranksim.core.trace import Header
from ranksim.judge.deployment.budget import HELD_BACK, Budget, account_named, guarded
from ranksim.judge.deployment.cleanup import TIDIED, Created, Left, mark, resolve_lost
from ranksim.judge.deployment.discovery import KeyReach, Reach, content, declared, explore, irremovable, state
from ranksim.judge.deployment.ownership import NOT_OURS, Ownership, kept
from ranksim.judge.deployment.prices import Prices
from ranksim.judge.deployment.reading_pace import ReadingPace, reading
from ranksim.judge.load import merging
from ranksim.judge.load.driver import drive
from ranksim.judge.load.leaked_resources import tidy, working
from ranksim.judge.load.merging import Merged
from ranksim.judge.load.receiving import LocalReceiver, ReceiverClient, RemoteReceiver
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Session
from ranksim.report import units


@dataclass(frozen=True, slots=True)
class Shared:
    """What all processes of a run have in common, so that their parts fit together.

    `run` is its mark and a number, `directory` where parts are written, `receiver` the receiver's URL (""
    without one), `receiver_token` what the run's own wants, `processes` how many share the users and
    `budgets` the spend cap. `salt` is hexadecimal.
    """

    run: str
    directory: str
    clock: AnchoredClock
    salt: str
    seed: int
    users: int
    processes: int
    budgets: int
    receiver: str
    reach: dict[str, Any]
    receiver_token: str = ""

    def to_message(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def from_message(cls, data: Mapping[str, Any]) -> Shared:
        """Read it back."""
        return cls(**{**data, "clock": AnchoredClock(**data["clock"])})


class Part:
    """What one process of a run records with: its file, its sessions and its budget."""

    def __init__(self, shared: Shared, target: Target, name: str, clock: AnchoredClock | None = None) -> None:
        self.shared = shared
        self.target = target
        receiver_token = shared.receiver_token or target.receiver_token or ""
        self.recorder = PartRecorder(
            Path(shared.directory) / f"part-{name}.jsonl",
            part=name,
            clock=clock or shared.clock,
            salt=bytes.fromhex(shared.salt),
            tokens=[*(key.token for key in target.keys.values()), receiver_token],
        )
        self.receiver = (
            ReceiverClient(shared.receiver, shared.run, self.recorder, receiver_token)
            if shared.receiver
            else None
        )
        self._tls = ssl.create_default_context()
        share = None if target.spend_cap is None else target.spend_cap // shared.budgets
        self.budget = Budget(share, target.dry_run_only, prices=Prices(target.failing_domain or ""))
        self.pace = ReadingPace(target, target.limit_share) if target.read_only else None
        self.know(reach_from_message(shared.reach, target) if shared.reach else Reach(target))

    def know(self, reach: Reach) -> None:
        """Take in whose each key is, and what may be written to."""
        keys = reach.keys.values()
        self.budget.accounts = {key.name: account_named(key.environment, key.account) for key in keys}
        self.ownership = Ownership.of(reach)

    def session(self, client: str = "", until: Micros = DISTANT_FUTURE) -> Session:
        """Connections of one user, with no call under way after an instant."""
        on_reply = None if self.receiver is None else self.receiver.observe
        return Session(
            self.target, self.recorder, client=client, until=until, on_reply=on_reply, tls=self._tls
        )

    def guarded(self, program: Program) -> Program:
        """Run a program within what may be spent, written to, and read."""
        return self._read(guarded(kept(program, self.ownership), self.budget))

    def perform(self, program: Generator[Any, Any, Any], client: str, until: Micros = DISTANT_FUTURE) -> Any:
        """Run a program to its end, or to an instant, and return what it returns; None when it was cut.

        Its calls and waits end by then, too.
        """
        session = self.session(client, until)
        try:
            return drive(self._read(program), session, self.receiver)
        finally:
            session.close()

    def _read(self, program: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        return program if self.pace is None else reading(program, self.pace)

    def close(self) -> None:
        """Write down that this process is done."""
        refused = self.budget.refused + (0 if self.pace is None else self.pace.held_back)
        if refused:
            self.recorder.note(HELD_BACK, calls=refused)
        if self.ownership.held_back:
            self.recorder.note(NOT_OURS, calls=self.ownership.held_back)
        self.recorder.close()


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What was asked for: where the trace goes, by which profile, for how many users.

    `workers` is how many processes run the users, 0 when the leading one does. `opening` (µs) is how long it
    may take to read what there is before anything is done.
    """

    out: Path
    profile: str = ""
    users: int = 1
    workers: int = 0
    seed: int | None = None
    gzip: bool = False
    opening: Micros = 10 * MINUTE


MARK_BITS = 32
"""How long a number keeps the marks of runs apart."""

TIDYING: Micros = 3 * MINUTE
"""How long a load may take to remove what it created."""

NOT_ALL_READ = "there was no time to read all of the state after"


class LoadRun:
    """A run, from the process that leads it. Raises BadInput when nothing can be loaded."""

    def __init__(self, target: Target, settings: RunSettings) -> None:
        self.target = target
        self.settings = settings
        self.path = trace_path(settings.out, settings.gzip)
        self.clock = AnchoredClock.here()
        self.started = self.clock.now()
        name = secrets.token_hex(4)
        self.directory = self.path.parent / f".parts-{name}"
        self._receiver: LocalReceiver | RemoteReceiver | None = None
        self._merged: Merged | None = None
        new = not self.path.parent.exists()
        try:
            self.directory.mkdir(parents=True, mode=0o700)
            self._receiver = self._receive()
            url = "" if self._receiver is None else self._receiver.url
            token = self._receiver.token if isinstance(self._receiver, LocalReceiver) else ""
            seed = settings.seed if settings.seed is not None else secrets.randbits(32)
            shared = Shared(
                f"{mark(seed)}-{name}", str(self.directory.resolve()), self.clock, secrets.token_hex(16),
                seed, settings.users, max(1, settings.workers), settings.workers + 1, url, {}, token,
            )  # fmt: skip
            self._write_header(Reach(target))
            self.part = Part(shared, target, "0")
            try:
                self.reach = replace(self._explore(), run=secrets.randbits(MARK_BITS))
            except BaseException:
                self.part.recorder.close()
                raise
            self.shared = self.part.shared = replace(shared, reach=reach_to_message(self.reach))
            self.part.know(self.reach)
        except BaseException as error:
            self._stop_receiver()
            shutil.rmtree(self.directory if not new else self.path.parent, ignore_errors=True)
            if isinstance(error, OSError):
                raise BadInput(
                    f"{self.directory}: cannot be written ({error.strerror}); give another --out"
                ) from None
            raise

    def abandon(self) -> None:
        """End the run where nothing but reading was done: no trace is written, and nothing is left."""
        self._stop_receiver()
        self.part.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()  # where it holds nothing else

    def remove(self, seeds: Sequence[int], until: Micros) -> list[Left]:
        """Remove what programs created that ran with these seeds, until an instant; return what is left."""
        urls = (f"{self.shared.receiver}/{self.shared.run}/",) if self.shared.receiver else ()
        created = Created(frozenset(mark(seed + self.reach.run) for seed in seeds), urls)
        return tidy(self.reach, created, self.clock, until).listed()

    def finish(
        self,
        totals: Mapping[str, Any] | None = None,
        *,
        removing: bool = True,
        until: Micros = DISTANT_FUTURE,
    ) -> Merged:
        """Read the state after, resolve what was lost, and merge; `totals` are Locust's own counts.

        Reading and resolving go on until an instant at most; a note then says that they were cut. What the
        run created is removed, unless that is left to `remove`.
        """
        if self._merged is not None:
            return self._merged
        try:
            lost = merging.lost(self.directory)
            again = guarded(resolve_lost(self.reach, lost), self.part.budget)  # all of it was permitted once
            self.part.perform(again, "resolve", until)
            if not self.target.read_only:  # else nothing was changed, and tasks have read it
                self.part.perform(state(self.reach), "after", until)
                self.part.perform(content(self.reach), "after", until)
            if self.clock.now() > until:
                self.part.recorder.note(NOT_ALL_READ)
        finally:
            if removing:
                left = self.remove([self.shared.seed], self.clock.now() + TIDYING)
                self.part.recorder.note(TIDIED, left=[asdict(thing) for thing in left])
            if totals is not None:
                self.part.recorder.note("what Locust counted", **totals)
            self._fetch_deliveries()
            self.part.close()
            self._merged = merging.merge(self.directory, self.path)
            shutil.rmtree(self.directory, ignore_errors=True)
        return self._merged

    def _explore(self) -> Reach:
        target, recorder = self.target, self.part.recorder
        if (target.time_scale, target.traffic_scale) != (1, 1):
            recorder.note("clock", t=self.started, rate=target.time_scale, traffic_rate=target.traffic_scale)
        if self._receiver is None:
            recorder.note("there is no webhook receiver that the deployment could reach")
        until = self.started + self.settings.opening
        reach: Reach | None = self.part.perform(explore(target), "explore", until)
        if reach is None:
            raise BadInput(self._too_slow)
        self._write_header(working(reach))
        self.part.perform(state(reach), "before", until)
        if self.clock.now() > until:
            raise BadInput(self._too_slow)
        self.part.perform(content(reach), "before", until)
        if target.dry_run_only:
            return reach
        kept = self.part.perform(irremovable(reach.main), "explore", until)
        if kept is None:
            raise BadInput(self._too_slow)
        return replace(reach, lacks={**reach.lacks, **kept})

    @property
    def _too_slow(self) -> str:
        length = units.duration(self.settings.opening)
        return f"the deployment could not be read within {length}; give it longer, or see why it is so slow"

    def _write_header(self, reach: Reach) -> None:
        header = Header(
            started=self.started,
            targets=dict(self.target.environments),
            keys=declared(self.target, reach.keys),
            exclusive=self.target.exclusive,
            clock=self.clock.described(),
        )
        described = {**header.model_dump(), "profile": self.settings.profile, "users": self.settings.users}
        (self.directory / merging.HEADER).write_text(json.dumps(described), encoding="utf-8")

    def _receive(self) -> LocalReceiver | RemoteReceiver | None:
        if self.target.receiver is not None:
            return RemoteReceiver(self.target.receiver, self.clock, self.target.receiver_token)
        hosts = {urlsplit(url).hostname for url in self.target.environments.values()}
        return LocalReceiver(self.directory, self.clock) if hosts <= {*LOOPBACK} else None

    def _fetch_deliveries(self) -> None:
        there = self._stop_receiver()
        if not there:
            self.part.recorder.note("the webhook receiver had ended before the run did")
            merging.miss(self.directory)
        if isinstance(self._receiver, RemoteReceiver):
            try:
                came = self._receiver.fetch(self.shared.run, self.part.recorder)
            except BadInput as error:
                self.part.recorder.note("what the receiver got could not be fetched", error=str(error))
                merging.miss(self.directory)
                return
            lines = "".join(json.dumps(delivery) + "\n" for delivery in came)
            (self.directory / merging.RECEIVER).write_text(lines, encoding="utf-8")

    def _stop_receiver(self) -> bool:
        """Stop our own receiver; return whether it was there until now."""
        return not isinstance(self._receiver, LocalReceiver) or self._receiver.stop()


def trace_path(out: Path, packed: bool) -> Path:
    """Where a run writes its trace: the first name in the directory that is not taken. Raises BadInput."""
    ending = ".jsonl.gz" if packed else ".jsonl"
    path, number = out / f"trace{ending}", 1
    while path.exists():
        number += 1
        path = out / f"trace-{number}{ending}"
    check_file(path)
    return path


def reach_to_message(reach: Reach) -> dict[str, Any]:
    """Return what can be exercised as plain data, without the target and its keys' tokens."""
    keys = {name: asdict(key) for name, key in reach.keys.items()}
    lacks = dict(reach.lacks)
    return {"keys": keys, "main": reach.main, "lacks": lacks, "date": reach.date, "run": reach.run}


def reach_from_message(data: Mapping[str, Any], target: Target) -> Reach:
    """Read back what can be exercised."""
    return Reach(target, **{**data, "keys": {name: KeyReach(**key) for name, key in data["keys"].items()}})
