"""A server and a client of aiohttp, for test_record_clients.py, whose Python has it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from aiohttp import ClientSession, FormData, WSMsgType, web


async def echo(request: web.Request) -> web.Response:
    """Answer a body with itself."""
    return web.Response(body=await request.read(), content_type=request.content_type)


async def packed(request: web.Request) -> web.Response:
    """Answer JSON, compressed."""
    answer = web.json_response({"ok": True, "api_key": request.headers["Authorization"].split()[1]})
    answer.enable_compression(web.ContentCoding.gzip)
    return answer


async def streamed(request: web.Request) -> web.StreamResponse:
    """Answer in chunks, as they come."""
    answer = web.StreamResponse()
    answer.set_cookie("session", request.headers["Authorization"].split()[1])
    await answer.prepare(request)
    for number in range(5):
        await answer.write(b"%d" % number * 10_000)
    await answer.write_eof()
    return answer


async def socket(request: web.Request) -> web.WebSocketResponse:
    """Answer each message of a WebSocket with itself."""
    answer = web.WebSocketResponse()
    await answer.prepare(request)
    async for message in answer:
        if message.type == WSMsgType.TEXT:
            await answer.send_str(message.data)
    return answer


async def serve() -> None:
    """Serve until the process is stopped, at the address that is printed."""
    application = web.Application()
    application.router.add_post("/echo", echo)
    application.router.add_post("/chunks", echo)
    application.router.add_get("/gzip", packed)
    application.router.add_get("/streamed", streamed)
    application.router.add_get("/socket", socket)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


async def call(base: str, secret: str) -> None:
    """Call in every way: forms, chunks, streams, compressed, many at once, a WebSocket."""

    async def parts() -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"part %d " % number

    headers = {"Authorization": f"Bearer {secret}"}
    async with ClientSession(base, headers=headers) as session:
        async with session.post("/echo", json={"client_secret": secret}) as answer:
            assert await answer.json() == {"client_secret": secret}
        form = FormData({"password": secret, "name": "a"})
        async with session.post("/echo", data=form) as answer:
            assert secret in await answer.text()
        async with session.post("/chunks", data=parts()) as answer:
            assert await answer.text() == "part 0 part 1 part 2 "
        async with session.get("/gzip") as answer:
            assert (await answer.json())["ok"]

        async def stream() -> int:
            async with session.get("/streamed") as answer:
                return len(await answer.read())

        assert await asyncio.gather(*(stream() for _ in range(30))) == 30 * [50_000]
        async with session.ws_connect("/socket") as websocket:
            await websocket.send_str("over")
            assert (await websocket.receive()).data == "over"
    print("ok")


async def large(base: str, secret: str) -> None:
    """Read 50 MB."""
    headers = {"Authorization": f"Bearer {secret}"}
    async with ClientSession(base, headers=headers) as session, session.get("/large") as answer:
        print(sum([len(part) async for part in answer.content.iter_any()]))


if __name__ == "__main__":
    asyncio.run({"serve": serve, "call": call, "large": large}[sys.argv[1]](*sys.argv[2:]))
