"""`ranksim serve`: the facade on the command line."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, update_wrapper
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from ranksim.core.clock import MINUTE, SECOND, Micros, format_duration, instant, iso
from ranksim.core.errors import BadInput, one_among
from ranksim.core.extras import missing
from ranksim.report.command_line import Commands, add_group
from ranksim.report.terminal import print_out, say
from ranksim.report.units import many
from ranksim.twin.facade import control_cli, state_cli
from ranksim.twin.receiver.cli import receive
from ranksim.twin.serving.cli_options import ControlHost, ControlToken, Host, NoControlToken, command_of

if TYPE_CHECKING:
    import ssl

    from ranksim.core.contract.policy import Policy
    from ranksim.twin.facade.answering import Deprecation
    from ranksim.twin.facade.app import Facade
    from ranksim.twin.facade.journal.write_ahead import WriteAheadLog
    from ranksim.twin.facade.origin import ReadOrigin
    from ranksim.twin.facade.twin import Twin

KIB, MIB = 1024, 1_048_576
LOGS = ("lines", "json", "none")


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `ranksim serve` is told."""

    ctx: typer.Context
    host: Host = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080
    world: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO",
            help="Begin with the accounts and endpoints of this scenario file; `--world` may be left out.",
        ),
    ] = None
    until: Annotated[
        str, typer.Option(metavar="INSTANT", help="Simulate it up to then first, so that there is history.")
    ] = ""
    demo: Annotated[bool, typer.Option("--demo", help="Begin with ninety days of an agency.")] = False
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", hidden=True, help="Serve under this policy file.")
    ] = None
    seed: Annotated[int, typer.Option(hidden=True, help="Seed of keys, secrets and everything drawn.")] = 0
    plan: Annotated[str, typer.Option(hidden=True, help="The plan of the demo accounts; usually pro.")] = ""
    clock: Annotated[
        str,
        typer.Option(
            metavar="real|manual|scaled:N",
            help="How time runs: as it does, only when the control API advances it, or N times as fast "
            "(scaled:60, scaled:1/10).",
        ),
    ] = "real"
    start: Annotated[
        str,
        typer.Option(metavar="INSTANT", help="The first instant, such as 2026-03-04T10:00:00Z; usually now."),
    ] = ""
    traffic_clock: Annotated[
        str,
        typer.Option(
            metavar="same|wall", hidden=True, help="What rate limits run on: the clock, or wall time."
        ),
    ] = "same"
    signature_clock: Annotated[
        str,
        typer.Option(
            metavar="virtual|wall",
            hidden=True,
            help="What webhooks are signed with: the clock, or wall time, as receivers check it.",
        ),
    ] = "wall"
    settle_timeout: Annotated[
        float,
        typer.Option(
            min=0.0,
            hidden=True,
            help="Seconds of wall time that an advance of the clock may wait for webhooks.",
        ),
    ] = 60.0
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep everything in this file (SQLite), and go on from it, clock and keys included; "
            "in memory without.",
        ),
    ] = None
    check: Annotated[
        bool,
        typer.Option(
            "--check", hidden=True, help="Verify the state file, say what is in it, and serve nothing."
        ),
    ] = False
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            hidden=True,
            help="Go on from a state file that holds less than was acknowledged, and say so.",
        ),
    ] = False
    control_token: ControlToken = ""
    no_control_token: NoControlToken = False
    control_host: ControlHost = None
    max_body: Annotated[int, typer.Option(min=1, hidden=True, help="The largest body in KiB.")] = 1024
    max_connections: Annotated[
        int,
        typer.Option(min=1, hidden=True, help="Connections at once; one more is answered 503 and closed."),
    ] = 1000
    max_arriving: Annotated[
        int,
        typer.Option(
            min=0,
            hidden=True,
            help="MiB of bodies that may be on their way at once, beside those of up to 64 KiB; what is more "
            "is answered 503 and closed.",
        ),
    ] = 64
    strict_query: Annotated[
        bool,
        typer.Option(
            envvar=["RANKSIM_SERVE_STRICT_QUERY", "RANKSIM_STRICT_QUERY"],
            hidden=True,
            help="Refuse query parameters that an operation does not know, or ignore them (U100).",
        ),
    ] = True
    strict_body: Annotated[
        bool,
        typer.Option(
            envvar=["RANKSIM_SERVE_STRICT_BODY", "RANKSIM_STRICT_BODY"],
            hidden=True,
            help="Refuse fields of bodies that an operation does not know, or ignore them (U84).",
        ),
    ] = True
    deprecated_since: Annotated[
        str,
        typer.Option(
            metavar="INSTANT",
            hidden=True,
            help="Send Deprecation and Sunset headers on /v1, and serve /v2 too; wants --sunset.",
        ),
    ] = ""
    sunset: Annotated[
        str, typer.Option(metavar="INSTANT", hidden=True, help="When the deprecated /v1 goes away.")
    ] = ""
    public_receivers_only: Annotated[
        bool,
        typer.Option(
            "--public-receivers-only", hidden=True, help="Send no webhook to a private or loopback address."
        ),
    ] = False
    any_receiver: Annotated[
        bool,
        typer.Option(
            "--any-receiver", hidden=True, help="Send webhooks to link-local addresses and to itself, too."
        ),
    ] = False
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            hidden=True,
            help="Trust these certificate authorities (PEM) for webhook receivers, besides the system's.",
        ),
    ] = None
    log: Annotated[
        str,
        typer.Option(
            metavar="lines|json|none",
            help="Write a line for every call and webhook attempt, for people or as JSON, or none; usually "
            "lines on a terminal, else none.",
        ),
    ] = ""
    docs: Annotated[
        bool, typer.Option(hidden=True, help="Serve /openapi.json, /schema.graphql and /docs.")
    ] = True
    json: Annotated[bool, typer.Option("--json", help="Say where it serves as one line of JSON.")] = False

    def beginning(self, read: "ReadWorld") -> dict[str, Any]:
        """Return with which policy, plan, seed, instant and accounts the world begins. Raises BadInput."""
        from ranksim.core.contract.policy import Policy

        if self.demo and (self.world is not None or self.until):
            raise BadInput("--demo: expected without a scenario and --until, as it is one up to its end")
        if self.world is None and self.until:
            raise BadInput("--until: expected together with a scenario file, to simulate up to then")
        if self.world is None and not self.demo:
            policy = Policy() if self.policy is None else Policy.load(self.policy)
            start = _instant("--start", self.start)
            return {"policy": policy, "seed": self.seed, "plan": self.plan, "start": start}
        for name in ("policy", "plan", "seed", "start"):
            if _given(self.ctx, name):
                where = "the demo" if self.world is None else str(self.world)
                raise BadInput(f"--{name}: {where} says it; leave it out, or write it there")
        return read(self.world, _instant("--until", self.until))

    def twin(self, beginning: Mapping[str, Any], own_ports: set[int]) -> "Twin":
        """Make the world to serve, which sends no webhook to its `own_ports`. Raises BadInput."""
        from ranksim.core.addresses import Receivers
        from ranksim.twin.facade.sender import NetworkSender
        from ranksim.twin.facade.twin import Twin

        tls = _tls(self.ca_file)
        receivers: Receivers = "others"
        if self.any_receiver or self.public_receivers_only:
            receivers = "any" if self.any_receiver else "public"
        return Twin(
            **beginning,
            clock=self.clock,
            traffic_clock=self.traffic_clock,
            signature_clock=self.signature_clock,
            settle_timeout=self.settle_timeout,
            sender=NetworkSender(receivers=receivers, tls=tls, own_ports=own_ports),
        )

    def facade(self, twin: "Twin", token: str, deprecation: "Deprecation | None") -> "Facade":
        """Make the app of a world."""
        from ranksim.twin.facade.app import Facade
        from ranksim.twin.facade.terminal import Terminal
        from ranksim.twin.serving.control_auth import names_of

        facade = Facade(
            twin,
            token=token or None,
            docs=self.docs,
            max_body=self.max_body * KIB,
            deprecation=deprecation,
            strict_query=self.strict_query,
            strict_body=self.strict_body,
            control_names=names_of(self.host, self.control_host or ()),
        )
        form = self.log or ("lines" if sys.stdout.isatty() and not self.json else "none")
        if form != "none":
            facade.terminal = Terminal(twin, sys.stdout, "json" if form == "json" else "lines")
        return facade


ReadWorld: TypeAlias = Callable[[Path | None, Micros | None], dict[str, Any]]
"""Reads a scenario file as settings of a `Twin`, simulated up to an instant (µs); None: the demo."""


def serve(options: ServeOptions, read: ReadWorld, read_origin: "ReadOrigin") -> None:
    """Serve a fake deployment of the API: REST, GraphQL, webhooks, sandbox, and a control API.

    It says its addresses and keys, and serves until it is interrupted.

    Examples:

    \b
      ranksim serve
      ranksim serve scenarios/quickstart.yaml --clock manual
      ranksim serve --clock manual --start 2026-03-04T10:00:00Z --port 0
    """  # fmt: skip
    if not math.isfinite(options.settle_timeout):
        raise BadInput(f"--settle-timeout: expected seconds, such as 60, found {options.settle_timeout}")
    if options.log not in ("", *LOGS):
        raise BadInput(f"--log: expected {one_among(LOGS, options.log)}")
    try:
        for name in ("httptools", "uvicorn", "ranksim.twin.facade.twin"):  # before anything is opened
            import_module(name)
    except ModuleNotFoundError as error:
        raise missing(f"serving needs {error.name}", "server") from None
    from ranksim.twin.facade import server
    from ranksim.twin.serving.control_auth import chosen_token
    from ranksim.twin.serving.limits import Limits
    from ranksim.twin.serving.listener import bind_socket

    beginning = {**options.beginning(read), "read_origin": read_origin}
    if options.check:
        _check(options.state, beginning["policy"])
        return
    if options.any_receiver and options.public_receivers_only:
        raise BadInput("--any-receiver: expected without --public-receivers-only")
    host = options.host
    token = chosen_token(options.control_token, none=options.no_control_token, host=host)
    own_ports = set[int]()
    twin = options.twin(beginning, own_ports)
    deprecation = _deprecation(options.deprecated_since, options.sunset)
    with bind_socket(host, options.port) as listener:
        state = options.state
        kept = None if state is None else _go_on(twin, state, options.ctx, options.accept_loss)
        try:
            if kept is not None and token:
                token = kept.control_token(options.control_token, token)
            facade = options.facade(twin, token, deprecation)
            server.set_up_logging(as_json=options.log == "json")
            port = listener.getsockname()[1]
            own_ports.add(port)
            limits = Limits(options.max_connections, options.max_arriving * MIB)
            server.serve_until_stopped(
                facade, listener, lambda: _announce(facade, options, port, token), limits
            )
        finally:
            if kept is not None:
                kept.close()


BESIDE: Commands = {
    "receive": (receive, "Record webhook deliveries."),
    "trigger": (control_cli.trigger, "Let a webhook event come about."),
    "resend": (control_cli.resend, "Deliver a webhook event once more."),
}


class _Serving(TyperGroup):
    """`ranksim serve`, whose first word may be a scenario file where no command below it is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as any group does, the file as what --world takes."""
        valued = {name for each in self.params if not getattr(each, "is_flag", True) for name in each.opts}
        for place, word in enumerate(args):
            if word in self.commands:
                break
            if word.endswith((".yaml", ".yml")) and (place == 0 or args[place - 1] not in valued):
                args = [*args[:place], "--world", *args[place:]]
                break
        return super().parse_args(ctx, args)


def add_serve(app: typer.Typer, read: ReadWorld, read_origin: "ReadOrigin") -> None:
    """Add `ranksim serve`, which `__main__` gives a command line of its own, and what goes with it."""
    line, serving = "Serve a fake deployment of the API.", partial(serve, read=read, read_origin=read_origin)
    alone = command_of(ServeOptions, update_wrapper(serving, serve))
    made = add_group(app, "serve", line, BESIDE, alone=alone, group=_Serving)
    add_group(
        made,
        "state",
        "Back up the world that a deployment serves.",
        state_cli.state_commands(read, read_origin),
    )


def _check(state: Path | None, policy: "Policy") -> None:
    """Verify a state file, and print what is in it. Raises BadInput."""
    from ranksim.twin.facade.journal.backup import verify_file

    if state is None:
        raise BadInput("--check: expected together with --state, the file to verify")
    sound = verify_file(state, policy)
    world = sound.twin.service.state
    counted = "all that were acknowledged" if sound.counted else "begun when none were counted"
    closed = "it was closed" if sound.closed else "it was not closed, and a start goes on from it"
    print_out(
        f"{state}: is sound: {sound.inputs} inputs, {counted}, lead to {len(world.accounts)} accounts, "
        f"{len(world.domains)} domains and {len(world.jobs)} jobs; {closed}\n"
    )


def _go_on(twin: "Twin", state: Path, ctx: typer.Context, accept_loss: bool) -> "WriteAheadLog":
    """Attach a state file, and say which flags count for nothing because it holds a world already."""
    from ranksim.twin.facade.journal.write_ahead import attach

    size = state.stat().st_size if state.is_file() else None
    holds = bool(size)
    wanted = _of_the_world(twin)
    log = attach(twin, state, accept_loss=accept_loss)
    if size == 0:  # as one that was made for it is, and one that lost all
        say(f"{state}: is empty, so a new world begins in it")
    kept = _of_the_world(twin)
    ignored = [
        f"--{name.replace('_', '-')}"
        for name in ("seed", "plan", "start", "clock", "traffic_clock", "signature_clock")
        if holds and _given(ctx, name) and wanted[name] != kept[name]
    ]
    if ignored:
        verb = "counts" if len(ignored) == 1 else "count"
        say(f"{state}: goes on as it was kept; {', '.join(ignored)} {verb} for a new file alone")
    _tell_clock_ahead(twin, state)
    return log


def _tell_clock_ahead(twin: "Twin", state: Path) -> None:
    """Say that a world with a real clock is ahead of this machine, which was set back or it was advanced."""
    ahead = twin.now() - twin.clock.wall()
    if str(twin.clock.rate) == "real" and ahead > MINUTE:
        say(
            f"{state}: its clock is at {iso(twin.now() // SECOND * SECOND)}, "
            f"{format_duration(ahead // SECOND * SECOND)} ahead of this machine's; it goes on from there, "
            "as no world's clock goes back"
        )


def _given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")


def _of_the_world(twin: "Twin") -> dict[str, Any]:
    return {"seed": twin.seed, "plan": twin.plan, "start": twin.first, **twin.clock.saved()}


def _instant(flag: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return instant(text)
    except ValueError:
        raise BadInput(f"{flag}: expected an instant such as 2026-03-04T10:00:00Z, found {text!r}") from None


def _deprecation(since: str, sunset: str) -> "Deprecation | None":
    from ranksim.twin.facade.answering import Deprecation

    first, last = _instant("--deprecated-since", since), _instant("--sunset", sunset)
    if first is None and last is None:
        return None
    if first is None or last is None or last < first:
        raise BadInput("--sunset: expected together with --deprecated-since, and not earlier")
    return Deprecation(first, last)


def _tls(ca_file: Path | None) -> "ssl.SSLContext | None":
    if ca_file is None:
        return None
    import ssl

    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError:
        raise BadInput(f"{ca_file}: expected certificates in PEM, found none that can be read") from None
    except OSError as error:
        raise BadInput(
            f"{ca_file}: cannot be read ({error.strerror}); expected certificates in PEM"
        ) from None
    return context


def _announce(facade: "Facade", options: ServeOptions, port: int, token: str) -> None:
    """Print where to begin: the page, the keys and a first call; as JSON, where everything is."""
    from ranksim.twin.serving.listener import url_of

    host, state = options.host, options.state
    base, twin = url_of(host, port), facade.twin
    addresses = {
        "base_url": base,
        "page": f"{base}/" + (f"?token={token}" if token else ""),
        "rest": f"{base}/v1",
        "graphql": f"{base}/graphql",
        "key": twin.keys.get("production", ""),
        "sandbox_rest": f"{base}/sandbox/v1",
        "sandbox_graphql": f"{base}/sandbox/graphql",
        "sandbox_key": twin.keys.get("sandbox", ""),
        "control": f"{base}/_ranksim",
        "control_token": token,
        "events": f"{base}/_ranksim/events" + (f"?token={token}" if token else ""),
        "docs": f"{base}/docs" + (f"?token={token}" if token else "") if facade.docs else "",
        "clock": str(twin.clock.rate),
        "now": iso(twin.now() // SECOND * SECOND),
    }
    if options.json:
        print_out(json.dumps(addresses) + "\n")
    else:
        reachable = url_of({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)
        print_out(_banner(facade, reachable, f"?token={token}" if token else "", state))


def _banner(facade: "Facade", base: str, token: str, state: Path | None) -> str:
    """Write where to begin, for people."""
    twin = facade.twin
    key, clock, domains = twin.keys.get("production", ""), twin.clock.rate, len(twin.service.state.domains)
    faults = len(twin.faults.stated(twin.now()))
    lines = {
        "page": f"{base}/{token}",
        "key": key,
        "sandbox key": twin.keys.get("sandbox", ""),
        "clock": "" if str(clock) == "real" else f"{clock}, {iso(twin.now() // SECOND * SECOND)}",
        "state": "" if state is None else f"{state}, {many(domains, 'domain')}",
        "faults": f"{many(faults, 'rule')} in force" if faults else "",
    }
    first = f"\n  curl -H 'Authorization: Bearer {key}' {base}/v1/account\n\n" if key else ""
    written = "".join(f"  {name:11}  {value}\n" for name, value in lines.items() if value)
    return f"ranksim serves a fake deployment; stop it with Ctrl-C\n{written}{first}"
