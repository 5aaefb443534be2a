"""The page as files: for browsers, at / and /_ranksim, protected as the control API is.

The page itself holds nothing of the deployment: it asks the control API for all that it shows, with the
token that stands in its own address. Text of callers comes to it as JSON and is shown as text; the policy
below lets no script run but its own, even if one were put into the page.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ranksim.twin.serving.asgi import Header, Scope, Send

HTML = b"text/html; charset=utf-8"

FILES = {
    "/": ("page.html", HTML),
    "/_ranksim": ("page.html", HTML),
    "/_ranksim/page.js": ("page.js", b"text/javascript; charset=utf-8"),
    "/_ranksim/page.css": ("page.css", b"text/css; charset=utf-8"),
}
"""What is served where."""

FORMS = {
    "/docs/docs.js": ("docs.js", b"text/javascript; charset=utf-8"),
    "/docs/docs.css": ("docs.css", b"text/css; charset=utf-8"),
}
"""Script and style of the pages with forms, which describe the API to everybody, as those do."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""What the page may load, run and ask (Content Security Policy Level 3; Trusted Types)."""

HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept"),
)


def is_wanted(path: str, scope: Scope) -> bool:
    """Return whether a browser asks for the page or one of its files; other clients are answered as ever."""
    if scope["method"] not in ("GET", "HEAD") or path not in FILES:
        return False
    return not is_document(path) or takes_html(scope)


def takes_html(scope: Scope) -> bool:
    """Return whether a request is a browser's that opens an address."""
    accept: bytes = dict(scope["headers"]).get(b"accept", b"")
    return scope["method"] in ("GET", "HEAD") and b"text/html" in accept


def is_document(path: str) -> bool:
    """Return whether a path is the page's own, which wants the token; script and style hold nothing."""
    return FILES[path][0] == "page.html"


async def send_file(send: Send, path: str, status: int, *, body: bool) -> None:
    """Send the page or one of its files."""
    name, content_type = (FILES | FORMS)[path]
    await send_page(send, _read(name), status, body=body, content_type=content_type)


async def send_page(
    send: Send, content: bytes, status: int = 200, *, body: bool, content_type: bytes = HTML
) -> None:
    """Send what runs and loads nothing but the page's own."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(content)), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content if body else b""})


@cache
def _read(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()
