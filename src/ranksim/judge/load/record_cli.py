"""`ranksim trace record`: an application's own calls as a trace, by a proxy that passes them on."""

import asyncio
import secrets
import shutil
import signal
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.report.progress import show_progress
from ranksim.report.terminal import print_out, say

if TYPE_CHECKING:
    from ranksim.core.trace import Header
    from ranksim.judge.load.proxy import RecordingProxy

PARTS = ".parts-recorded"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOLD_EVERY_S = 5.0


def record(
    upstream: Annotated[
        str, typer.Option(metavar="URL", help="Where calls are passed on to: the base URL of the real API.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write trace.jsonl here.")] = Path("recorded"),
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the application calls instead; port 0 for any.")
    ] = "127.0.0.1:8090",
    any_host: Annotated[
        bool, typer.Option("--any-host", help="Listen at an address that other machines reach, too.")
    ] = False,
    ca_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trust these certificates (PEM) of an https upstream."),
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="All calls of these keys come through here.")
    ] = False,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Nobody else uses these accounts meanwhile.")
    ] = False,
) -> None:
    """Stand between an application and an API, pass everything on as it is, and write a trace.

    Point the application's base URL here and stop with Ctrl-C. Nothing is changed but the Host header. Keys
    go by names (key-1, …); tokens, cookies and other credentials are not written. `ranksim view DIR` shows
    the calls while they come; recordings of other tools are read by `ranksim trace import`.

    Example: ranksim trace record --upstream https://api.example.com --out recorded
    """
    from urllib.parse import urlsplit

    from ranksim.core.errors import BadInput
    from ranksim.core.trace import Header
    from ranksim.judge.load.merging import HEADER, merge
    from ranksim.judge.load.proxy import TARGET, KeyNames, RecordingProxy
    from ranksim.judge.load.recorder import AnchoredClock, PartRecorder

    parts = urlsplit(upstream)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise BadInput(f"--upstream: expected a URL such as https://api.example.com, found {upstream!r}")
    if parts.username is not None:
        raise BadInput("--upstream: a name and a password in the URL would be written down; leave them out")
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise BadInput(f"--listen: expected HOST:PORT such as 127.0.0.1:8090, found {listen!r}")
    if host not in LOOPBACK and not any_host:
        raise BadInput(
            f"--listen: {host} is reached by other machines, whose keys would pass; say --any-host"
        )
    if (out / "trace.jsonl").exists():
        raise BadInput(f"{out / 'trace.jsonl'}: is there already; give another --out")
    tls = _trusting(ca_file) if parts.scheme == "https" else None
    directory = out / PARTS
    try:
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{out}: cannot be written ({error.strerror}); give another --out") from None
    clock = AnchoredClock.here()
    number = len(list(directory.glob("part-*.jsonl")))  # of a recording that was killed, which goes on
    part = PartRecorder(
        directory / f"part-{number}.jsonl", part=str(number), clock=clock, salt=secrets.token_bytes(16)
    )
    before = _earlier(directory / HEADER)
    if before is not None:
        complete = exclusive = False  # nobody knows what passed meanwhile
    header = Header(
        started=clock.now() if before is None else before.started, targets={TARGET: upstream},
        keys={} if before is None else before.keys, exclusive=exclusive,
        capture="complete" if complete else "partial", clock=clock.described(),
    )  # fmt: skip
    proxy = RecordingProxy(upstream, KeyNames(directory, header, part), part, tls)
    try:
        asyncio.run(_serve(proxy, host, int(port), upstream))
    except OSError as error:
        raise BadInput(
            f"--listen: {listen} cannot be listened at ({error.strerror}); give another port"
        ) from None
    finally:
        part.close()
    trace = out / "trace.jsonl"
    merged = merge(directory, trace, partial=not complete)
    shutil.rmtree(directory)
    print_out(f"{merged.exchanges:,} calls recorded\ntrace: {trace}\nnext: ranksim compare {trace}\n")


async def _serve(proxy: "RecordingProxy", host: str, port: int, upstream: str) -> None:
    """Pass calls on until SIGINT or SIGTERM; a terminal hears how many there were."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await asyncio.start_server(proxy.serve, host, port)
    address = server.sockets[0].getsockname()
    name = f"[{address[0]}]" if ":" in address[0] else address[0]
    say(f"recording calls to http://{name}:{address[1]} for {upstream}; stop with Ctrl-C")
    waiting = asyncio.ensure_future(stopped.wait())
    with show_progress("recording") as tell:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=TOLD_EVERY_S)
            tell(None, f"{proxy.count:,} calls")
    server.close()
    under_way = asyncio.all_tasks() - {asyncio.current_task()}
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


def _earlier(path: Path) -> "Header | None":
    """The header of a recording that was killed, which goes on; None where there is none."""
    from ranksim.core.trace import Header

    try:
        return Header.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    """How an upstream is verified. Raises BadInput for a file that holds no certificates."""
    from ranksim.core.errors import BadInput

    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError):
        raise BadInput(f"--ca-file: expected certificates in PEM, found none in {ca_file}") from None
