"""The state of a service as JSON: written, and read back under a policy that it fits."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache

from pydantic import TypeAdapter
from pydantic_core import from_json

from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.administration import windows_of_a_key
from ranksim.core.service.state import State

FIELDS = {field.name for field in fields(State)}


def dump_state(state: State) -> bytes:
    """Return the whole state as JSON."""
    return _schema().dump_json(state)


def parse(saved: bytes, policy: Policy) -> State:
    """Return a state that was dumped. Raises BadInput when it is not one, or not of the policy."""
    try:
        complete = from_json(saved).keys() == FIELDS
        state = _schema().validate_json(saved, strict=True)
    except (ValueError, AttributeError):
        complete = False
    if not complete:
        raise BadInput("saved state: expected the JSON that a service of this version saved")
    for misfit in _misfits(state, policy):
        raise BadInput(f"saved state: {misfit}")
    return state


def _misfits(state: State, policy: Policy) -> Iterator[str]:
    """Return what a policy lacks that a state has, or the other way round."""
    plans, add_ons = policy.catalogue.plans, policy.catalogue.add_ons
    for account in state.accounts.values():
        at = f"accounts.{account.id}"
        if account.plan not in plans:
            yield f"{at}.plan: expected a plan of the policy, found {account.plan!r}"
        elif missing := plans[account.plan].quotas.keys() - account.meters.keys():
            yield f"{at}.meters: expected {min(missing)!r}, which plan {account.plan!r} of the policy meters"
        if unknown := account.add_ons.keys() - add_ons.keys():
            yield f"{at}.add_ons: expected add-ons of the policy, found {min(unknown)!r}"
    windows = windows_of_a_key(policy)
    for key in state.keys.values():
        if len(key.windows) != windows:
            yield f"keys of {key.account}: expected {windows} rate windows (U11), found {len(key.windows)}"


@cache
def _schema() -> TypeAdapter[State]:
    return TypeAdapter(State)  # building it takes as long as a tenth of starting, and few dump a state
