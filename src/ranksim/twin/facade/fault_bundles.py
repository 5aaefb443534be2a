"""Named bundles of faults, as production has them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.quantities import Frozen
from ranksim.core.errors import BadInput, no_such
from ranksim.twin.facade.faults import FaultRule

BUNDLES: Mapping[str, tuple[Mapping[str, Any], ...]] = MappingProxyType(
    {
        "flaky-gateway": (
            {"status": 502, "body": "html", "answer_rate": 0.1},
            {"status": 504, "body": "html", "answer_rate": 0.03, "after_effect": True},
            {"drop_during_rate": 0.02},
        ),
        "overloaded": (
            {"latency": {"exponential": {"mean": "400ms"}}},
            {"status": 503, "retry_after": "5s", "answer_rate": 0.2},
        ),
        "bad-deploy": ({"error_rate": 0.3}, {"body": "cut", "answer_rate": 0.05}),
        "slow-database": (
            {"latency": {"lognormal": {"median": "600ms", "sigma": 0.8}}},
            {"status": 504, "body": "html", "answer_rate": 0.02, "after_effect": True},
        ),
    }
)
"""The rules of each bundle, in order."""

BundleName = Literal["flaky-gateway", "overloaded", "bad-deploy", "slow-database"]


class BundleScope(Frozen):
    """Which requests a bundle of faults befalls, and for how long; by default all, until it is removed."""

    operation: str = Field("*", description="Operations, such as jobs.create or jobs.*.")
    path: str | None = Field(None, description="Paths, such as /v1/jobs/*.")
    key: str | None = Field(None, description="The API key.")
    environment: Literal["production", "sandbox"] | None = Field(None, description="By default both.")
    lasts: str | None = Field(None, description="How long, on the service's clock, such as 10m.")


def rules_of(bundle: str, scope: BundleScope) -> list[FaultRule]:
    """Return the rules of a bundle, for the requests of a scope. Raises BadInput."""
    if bundle not in BUNDLES:
        raise BadInput(no_such("bundle of faults", bundle, tuple(BUNDLES), f"there are {', '.join(BUNDLES)}"))
    shared = scope.model_dump(exclude_none=True)
    return [validate(FaultRule, Located(bundle, {**shared, **rule}, {})) for rule in BUNDLES[bundle]]
