"""Windows of the served policy that read headers of requests."""

from ranksim.core.contract.policy import Policy
from ranksim.testing import World

POLICY = Policy(windows=[{"name": "team", "per": "header:X-Team", "limit": "2/60s"}])


def test_calls_are_counted_by_a_header_over_rest_and_graphql() -> None:
    with World(policy=POLICY) as world:
        client = world.client()

        def status(team: str) -> int:
            return client.get("/v1/domains", headers={"X-Team": team}).status_code

        assert [status("a"), status("a"), status("a"), status("b")] == [200, 200, 429, 200]
        query = {"query": "{ domains { nodes { id } } }"}
        answers = [client.post("/graphql", json=query, headers={"X-Team": "b"}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
