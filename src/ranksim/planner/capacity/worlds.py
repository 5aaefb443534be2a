"""The policies under which simulated worlds answer a question of capacity."""

from __future__ import annotations

from typing import Any

from ranksim.core.contract.policy import Policy
from ranksim.planner.capacity.common import WITHOUT_END


def only_plan(policy: Policy, **changes: Any) -> Policy:
    """Return a policy whose one plan, "capacity", refuses nothing but by `changes` (fields of `Plan`)."""
    catalogue = policy.catalogue
    roomy: dict[str, Any] = {
        "name": "capacity",
        "capabilities": tuple(sorted(set(catalogue.capability_of.values()))),
        "quotas": {},
        "cooldowns": {},
        "cost_ceiling": WITHOUT_END,
        "slot_limit": WITHOUT_END,
    }
    plan = next(iter(catalogue.plans.values())).model_copy(update=roomy | changes)
    alone = catalogue.model_copy(update={"plans": {"capacity": plan}, "add_ons": {}})
    return policy.model_copy(update={"catalogue": alone})
