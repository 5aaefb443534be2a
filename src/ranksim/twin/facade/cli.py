"""`ranksim serve`: the facade on the command line."""

import json
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ranksim.core.clock import MINUTE, SECOND, format_duration, instant, iso
from ranksim.core.errors import BadInput
from ranksim.core.extras import missing
from ranksim.report.command_line import spoken
from ranksim.report.terminal import print_out, say
from ranksim.twin.serving.cli_options import ControlHost, ControlToken, Host, NoControlToken

if TYPE_CHECKING:
    import ssl

    from ranksim.core.contract.policy import Policy
    from ranksim.twin.facade.answering import Deprecation
    from ranksim.twin.facade.app import Facade
    from ranksim.twin.facade.journal.write_ahead import WriteAheadLog
    from ranksim.twin.facade.twin import Twin

KIB, MIB = 1024, 1_048_576


def add_serve(app: typer.Typer) -> None:
    """Add `ranksim serve`, which `__main__` gives a command line of its own."""
    app.command("serve", short_help="Serve a fake deployment of the API.")(spoken()(serve))


def serve(
    ctx: typer.Context,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    policy: Annotated[Path | None, typer.Option(metavar="FILE", help="Serve under this policy file.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of keys, secrets and everything drawn.")] = 0,
    plan: Annotated[str, typer.Option(help="The plan of the demo accounts; usually pro.")] = "",
    clock: Annotated[
        str,
        typer.Option(
            metavar="real|manual|scaled:N",
            help="How time runs: as it does, only when the control API advances it, or N times as fast "
            "(scaled:60, scaled:1/10).",
        ),
    ] = "real",
    start: Annotated[
        str,
        typer.Option(metavar="INSTANT", help="The first instant, such as 2026-03-04T10:00:00Z; usually now."),
    ] = "",
    traffic_clock: Annotated[
        str, typer.Option(metavar="same|wall", help="What rate limits run on: the clock, or wall time.")
    ] = "same",
    signature_clock: Annotated[
        str,
        typer.Option(
            metavar="virtual|wall",
            help="What webhooks are signed with: the clock, or wall time, as receivers check it.",
        ),
    ] = "wall",
    settle_timeout: Annotated[
        float,
        typer.Option(
            min=0.0, help="Seconds of wall time that an advance of the clock may wait for webhooks."
        ),
    ] = 60.0,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep everything in this file (SQLite), and go on from it, clock and keys included; "
            "in memory without.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Verify the state file, say what is in it, and serve nothing.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Go on from a state file that holds less than was acknowledged, and say so."
        ),
    ] = False,
    control_token: ControlToken = "",
    no_control_token: NoControlToken = False,
    control_host: ControlHost = None,
    max_body: Annotated[int, typer.Option(min=1, help="The largest body in KiB.")] = 1024,
    max_connections: Annotated[
        int, typer.Option(min=1, help="Connections at once; one more is answered 503 and closed.")
    ] = 1000,
    max_arriving: Annotated[
        int,
        typer.Option(
            min=0,
            help="MiB of bodies that may be on their way at once, beside those of up to 64 KiB; what is more "
            "is answered 503 and closed.",
        ),
    ] = 64,
    strict_query: Annotated[
        bool,
        typer.Option(
            envvar=["RANKSIM_SERVE_STRICT_QUERY", "RANKSIM_STRICT_QUERY"],
            help="Refuse query parameters that an operation does not know, or ignore them (U100).",
        ),
    ] = True,
    strict_body: Annotated[
        bool,
        typer.Option(
            envvar=["RANKSIM_SERVE_STRICT_BODY", "RANKSIM_STRICT_BODY"],
            help="Refuse fields of bodies that an operation does not know, or ignore them (U84).",
        ),
    ] = True,
    deprecated_since: Annotated[
        str,
        typer.Option(
            metavar="INSTANT",
            help="Send Deprecation and Sunset headers on /v1, and serve /v2 too; wants --sunset.",
        ),
    ] = "",
    sunset: Annotated[str, typer.Option(metavar="INSTANT", help="When the deprecated /v1 goes away.")] = "",
    public_receivers_only: Annotated[
        bool,
        typer.Option("--public-receivers-only", help="Send no webhook to a private or loopback address."),
    ] = False,
    any_receiver: Annotated[
        bool,
        typer.Option("--any-receiver", help="Send webhooks to link-local addresses and to itself, too."),
    ] = False,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trust these certificate authorities (PEM) for webhook receivers, besides the system's.",
        ),
    ] = None,
    lines: Annotated[
        bool | None,
        typer.Option(
            "--lines/--quiet",
            help="Write a line for every call and webhook attempt, or none; usually on a terminal alone.",
        ),
    ] = None,
    docs: Annotated[bool, typer.Option(help="Serve /openapi.json, /schema.graphql and /docs.")] = True,
    access_log: Annotated[bool, typer.Option(help="Log every request.")] = False,
    log_format: Annotated[str, typer.Option(metavar="text|json", help="How to log, on stderr.")] = "text",
    json: Annotated[bool, typer.Option("--json", help="Say where it serves as one line of JSON.")] = False,
) -> None:
    """Serve a fake deployment of the API: REST, GraphQL, webhooks, sandbox, and a control API.

    It says its addresses and keys, and serves until it is interrupted.

    Examples:

    \b
      ranksim serve
      ranksim serve --clock manual --start 2026-03-04T10:00:00Z --port 0
    """  # fmt: skip
    if not math.isfinite(settle_timeout):
        raise BadInput(f"--settle-timeout: expected seconds, such as 60, found {settle_timeout}")
    if log_format not in ("text", "json"):
        raise BadInput(f"--log-format: expected text or json, found {log_format!r}")
    try:
        for name in ("httptools", "uvicorn"):  # all of the extra is asked for before anything is opened
            import_module(name)
        from ranksim.twin.facade.sender import NetworkSender, Receivers
        from ranksim.twin.facade.terminal import Terminal
        from ranksim.twin.facade.twin import Twin
    except ModuleNotFoundError as error:
        raise missing(f"serving needs {error.name}", "server") from None
    from ranksim.core.contract.policy import Policy
    from ranksim.twin.facade import server
    from ranksim.twin.facade.app import Facade
    from ranksim.twin.serving.control_auth import chosen_token, names_of
    from ranksim.twin.serving.limits import Limits
    from ranksim.twin.serving.listener import bound

    wanted = Policy() if policy is None else Policy.load(policy)
    if check:
        _check(state, wanted)
        return
    if any_receiver and public_receivers_only:
        raise BadInput("--any-receiver: expected without --public-receivers-only")
    token = chosen_token(control_token, none=no_control_token, host=host)
    receivers: Receivers = "any" if any_receiver else "public" if public_receivers_only else "others"
    own_ports = set[int]()
    twin = Twin(
        wanted,
        seed,
        clock=clock,
        start=_instant("--start", start),
        traffic_clock=traffic_clock,
        signature_clock=signature_clock,
        settle_timeout=settle_timeout,
        sender=NetworkSender(receivers=receivers, tls=_tls(ca_file), own_ports=own_ports),
        plan=plan,
    )
    deprecation = _deprecation(deprecated_since, sunset)
    with bound(host, port) as listener:
        kept = None if state is None else _go_on(twin, state, ctx, accept_loss)
        try:
            facade = Facade(
                twin,
                token=token or None,
                docs=docs,
                max_body=max_body * KIB,
                deprecation=deprecation,
                strict_query=strict_query,
                strict_body=strict_body,
                access_log=access_log,
                control_names=names_of(host, control_host or ()),
            )
            if lines or (lines is None and sys.stdout.isatty() and not json):
                facade.terminal = Terminal(twin, sys.stdout)
            server.set_up_logging(log_format)
            port = listener.getsockname()[1]
            own_ports.add(port)
            limits = Limits(max_connections, max_arriving * MIB)
            server.serve(facade, listener, lambda: _announce(facade, host, port, token, as_json=json), limits)
        finally:
            if kept is not None:
                kept.close()


def _check(state: Path | None, policy: "Policy") -> None:
    """Verify a state file, and print what is in it. Raises BadInput."""
    from ranksim.twin.facade.journal.backup import examine

    if state is None:
        raise BadInput("--check: expected together with --state, the file to verify")
    sound = examine(state, policy)
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


def _announce(facade: "Facade", host: str, port: int, token: str, *, as_json: bool) -> None:
    """Print where everything is."""
    from ranksim.twin.serving.listener import url_of

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
    if as_json:
        print_out(json.dumps(addresses) + "\n")
    else:
        addresses["control"] += f"?token={token}" if token else ""  # so that what is printed opens
        width = max(map(len, addresses))
        lines = [f"  {key.replace('_', ' '):{width}}  {value}\n" for key, value in addresses.items() if value]
        print_out("ranksim serves a fake deployment; stop it with Ctrl-C\n" + "".join(lines))
