"""A service that goes every other way, too, on which a call must come to the same."""

import json
from dataclasses import replace
from typing import Any

from ranksim.core.service.calls import Call, Reply, Step
from ranksim.core.service.service import Service


class EveryWay:
    """A service of which each call is made on forks, too, and must lead to the same there.

    One fork takes the request for one over GraphQL, one knows no call whose charge is plain, and from one the
    driver does not read pages.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)

    def handle(self, call: Call, now: int, traffic_now: int | None = None) -> Step:
        """Make a call; fails where the ways differ in reply, tasks, events or state."""
        graphql, long, unread = (self.service.fork() for _ in range(3))
        long._charged = {}
        step = self.service.handle(call, now, traffic_now)
        others = {"the long way": long.handle(call, now, traffic_now)}
        if call.surface == "rest" and self.service.policy.assumptions.graphql_cost != "separate":
            others["GraphQL"] = graphql.handle_batch([replace(call, surface="graphql")], now, traffic_now)
            others["GraphQL"].reply.cursors = ()
        else:
            graphql.handle_batch([call], now, traffic_now)
        others["unread"] = unread.handle(call, now, traffic_now, reads=False)
        show_page(others["unread"].reply, step.reply)
        saved = self.service.save()
        for way, other in others.items():
            assert other == step, way
            assert json.dumps(other.reply.body) == json.dumps(step.reply.body), way
        for fork in (graphql, long, unread):
            assert fork.save() == saved
        return step


def show_page(unread: Reply, read: Reply) -> None:
    """Put into a page that nobody wanted to read what it lacks; any other reply is whole."""
    if read.body is not None and "has_more" in read.body:
        assert unread.body is not None
        assert "data" not in unread.body
        unread.body = {"data": read.body["data"], **unread.body}
