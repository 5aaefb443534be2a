"""Pages as files: the live page, protected as the control API is, and the forms of /docs and /graphql.

The live page holds nothing of the deployment: it asks the control API for all that it shows, with the
token that came in its own address or that it asks for. Text of callers comes to it as JSON and is shown as
text; its policy lets no script run but its own, even if one were put into the page. Swagger UI and GraphiQL
come out of packages (docs/decisions/packaged-forms.md), and run under a policy that gives way to their
styles and fonts.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path, PurePath

from ranksim.twin.serving.asgi import Header, Scope, Send

HTML = b"text/html; charset=utf-8"

TYPES = {".html": HTML, ".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8"}
"""Content types of files by how their names end."""

FILES = {
    "/": "page.html",
    "/_ranksim": "page.html",
    "/_ranksim/token.js": "token.js",
    "/_ranksim/page.js": "page.js",
    "/_ranksim/page.css": "page.css",
}
"""What the live page consists of, and where it is served."""

PACKAGED = {
    "flask-swagger-ui": ("flask_swagger_ui/dist", ("swagger-ui-bundle.js", "swagger-ui.css")),
    "graphene-django-graphiql-static": (
        "graphene_django_graphiql_static/static/graphene_django_graphiql_static",
        (
            "react.production.min.js",
            "react-dom.production.min.js",
            "graphiql.min.js",
            "graphiql.min.css",
            "graphiql-plugin-explorer.umd.js",
            "style.css",
        ),
    ),
}
"""Files that are taken out of a distribution: from which of its folders, and their names.

Neither package is imported, so that its framework is not either.
"""

FORMS = {"/docs": "docs.html"} | {
    f"/docs/{name}": name
    for name in ("docs.js", "graphql.js", *(name for _, names in PACKAGED.values() for name in names))
}
"""What the pages with forms consist of; they describe the API to everybody, as its documents do."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""What the live page may load, run and ask (Content Security Policy Level 3; Trusted Types)."""

FORMS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The same of Swagger UI and GraphiQL, which write styles, carry fonts, and set markup that they made."""

HEADERS: tuple[Header, ...] = (
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
    return FILES[path] != "page.html" or takes_html(scope)


def takes_html(scope: Scope) -> bool:
    """Return whether a request is a browser's that opens an address."""
    accept: bytes = dict(scope["headers"]).get(b"accept", b"")
    return scope["method"] in ("GET", "HEAD") and b"text/html" in accept


async def send_file(send: Send, name: str, scope: Scope) -> None:
    """Send a file of a page, with what it may run and load."""
    content, policy = _read(name), POLICY if name in FILES.values() else FORMS_POLICY
    headers = [
        (b"content-type", TYPES[PurePath(name).suffix]),
        (b"content-length", b"%d" % len(content)),
        (b"content-security-policy", policy.encode()),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


@cache
def _read(name: str) -> bytes:
    for package, (folder, names) in PACKAGED.items():
        if name in names:
            return Path(str(distribution(package).locate_file(f"{folder}/{name}"))).read_bytes()
    return files(__package__).joinpath(name).read_bytes()
