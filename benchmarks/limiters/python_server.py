"""A limiter of a Python package behind one GET: python_server.py KIND LIMIT SECONDS PORT [BROKEN].

BROKEN is `race`, which checks first and counts later, or `drift=1.1`, a clock that is so many times as fast.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

KIND, LIMIT, SECONDS, PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
BROKEN = sys.argv[5] if len(sys.argv) > 5 else ""
RACE = 0.008
"""Seconds between a check and the count, where they race."""

if BROKEN.startswith("drift="):
    fast = float(BROKEN[6:])

    class Drifting:
        """A clock that is no function, which a class would make a method of."""

        def __init__(self, real: Callable[[], float]) -> None:
            self.real, self.start = real, real()

        def __call__(self) -> float:
            return self.start + (self.real() - self.start) * fast

    time.time, time.monotonic = Drifting(time.time), Drifting(time.monotonic)

RATE = f"{LIMIT}/{SECONDS} second"


def flask_app(strategy: str, storage: str = "memory://") -> None:
    """Flask-Limiter, or where checks race, its `limits` asked and counted apart."""
    from flask import Flask
    from flask_limiter import Limiter
    from limits import parse
    from werkzeug.serving import WSGIRequestHandler

    app = Flask("limited")
    if BROKEN == "race":
        limiter = Limiter(lambda: "all", app=app, strategy=strategy, storage_uri=storage).limiter
        item = parse(RATE)

        def racing() -> tuple[str, int]:
            admitted = limiter.test(item, "all")
            time.sleep(RACE)
            if admitted:
                limiter.hit(item, "all")
            return ("admitted", 200) if admitted else ("refused", 429)

        app.add_url_rule("/", view_func=racing)
    else:
        Limiter(
            lambda: "all",
            app=app,
            strategy=strategy,
            default_limits=[RATE],
            storage_uri=storage,
            headers_enabled=True,
        )
        app.add_url_rule("/", view_func=lambda: "admitted", endpoint="all")
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    app.run(port=PORT, threaded=True)


def throttled_app(using: str) -> None:
    """throttled-py under Flask."""
    from datetime import timedelta

    from flask import Flask
    from throttled import Throttled, rate_limiter, store
    from werkzeug.serving import WSGIRequestHandler

    quota = rate_limiter.per_duration(timedelta(seconds=SECONDS), LIMIT, burst=LIMIT)
    throttle = Throttled(using=using, quota=quota, store=store.MemoryStore())
    app = Flask("limited")

    def answer() -> tuple[str, int]:
        return ("refused", 429) if throttle.limit("all").limited else ("admitted", 200)

    app.add_url_rule("/", view_func=answer)
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    app.run(port=PORT, threaded=True)


def slowapi_app() -> None:
    """slowapi under Starlette."""
    import uvicorn
    from slowapi import Limiter, _rate_limit_exceeded_handler
    from slowapi.errors import RateLimitExceeded
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    limiter = Limiter(key_func=lambda: "all", headers_enabled=True)

    @limiter.limit(RATE)
    async def answer(request: Request) -> Response:
        return PlainTextResponse("admitted")

    app = Starlette(routes=[Route("/", answer)])
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)
    uvicorn.run(app, port=PORT, log_level="error")


def litestar_app() -> None:
    """Litestar's middleware, whose unit is a second."""
    import uvicorn
    from litestar import Litestar, get
    from litestar.middleware.rate_limit import RateLimitConfig

    @get("/")
    async def answer() -> str:
        return "admitted"

    limits = RateLimitConfig(rate_limit=("second", LIMIT))
    uvicorn.run(Litestar([answer], middleware=[limits.middleware]), port=PORT, log_level="error")


def django_app(package: str) -> None:
    """The throttle of Django REST framework, or django-ratelimit, one call at a time."""
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    import django
    from django.conf import settings

    settings.configure(
        DEBUG=False,
        SECRET_KEY="x",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="throttled_urls",
        CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
        REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []},
    )
    django.setup()
    import types

    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.urls import path
    from django_ratelimit.core import is_ratelimited
    from rest_framework.response import Response
    from rest_framework.throttling import SimpleRateThrottle
    from rest_framework.views import APIView

    class Throttle(SimpleRateThrottle):
        scope, rate = "all", f"{LIMIT}/s"

        def parse_rate(self, rate: str) -> tuple[int, int]:
            return LIMIT, SECONDS

        def get_cache_key(self, request: object, view: object) -> str:
            return "all"

    class Answer(APIView):
        throttle_classes = (Throttle,)

        def get(self, request: object) -> Response:
            return Response("admitted")

    def counted(request: HttpRequest) -> HttpResponse:
        rate = f"{LIMIT}/{SECONDS}s"
        over = is_ratelimited(
            request, group="all", key=lambda group, request: "all", rate=rate, increment=True
        )
        return HttpResponse("refused", status=429) if over else HttpResponse("admitted")

    urls = types.ModuleType("throttled_urls")
    urls.urlpatterns = [path("", counted if package == "ratelimit" else Answer.as_view())]
    sys.modules["throttled_urls"] = urls

    class Quiet(WSGIRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    make_server("127.0.0.1", PORT, get_wsgi_application(), handler_class=Quiet).serve_forever()


APPS = {
    "flask-limiter-fixed": lambda: flask_app("fixed-window"),
    "flask-limiter-moving": lambda: flask_app("moving-window"),
    "flask-limiter-counter": lambda: flask_app("sliding-window-counter"),
    "flask-limiter-redis-fixed": lambda: flask_app("fixed-window", f"redis://127.0.0.1:6399/{PORT % 16}"),
    "flask-limiter-redis-moving": lambda: flask_app("moving-window", f"redis://127.0.0.1:6399/{PORT % 16}"),
    "slowapi": slowapi_app,
    "litestar": litestar_app,
    "django-rest-framework": lambda: django_app("rest"),
    "django-ratelimit": lambda: django_app("ratelimit"),
    "throttled-fixed": lambda: throttled_app("fixed_window"),
    "throttled-sliding": lambda: throttled_app("sliding_window"),
    "throttled-bucket": lambda: throttled_app("token_bucket"),
    "throttled-gcra": lambda: throttled_app("gcra"),
}

if __name__ == "__main__":
    logging.getLogger("werkzeug").disabled = True
    APPS[KIND]()
