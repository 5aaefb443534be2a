"""What is laid over what: a scenario file's parts over its policy, and changes over a scenario."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Distribution
from ranksim.twin.sim.schedule_time import Moment


def read_policy(located: Located, folder: Path) -> Policy:
    """Return the policy of a scenario file: its `policy`, with `catalogue` laid over it. Raises BadInput."""
    policy = Policy()
    if "policy" in located.data:
        given = located["policy"]
        if isinstance(given.data, str):
            path = folder / given.data
            if not path.is_file():
                raise given.error(f"no such file as {str(path)!r}; give a path relative to the scenario")
            policy = Policy.load(path)
        else:
            policy = Policy.read(given, folder)
    if "catalogue" in located.data:
        alone = Located(located.where, {"catalogue": located.data["catalogue"]}, located.lines, located.path)
        policy = policy.model_copy(update={"catalogue": Policy.read(alone, folder).catalogue})
    return policy


def with_assumptions(policy: Policy, located: Located) -> Policy:
    """Return the same policy with the `assumptions` of a scenario laid over it."""
    if "assumptions" not in located.data:
        return policy
    given = validate(Assumptions, located["assumptions"])
    assumptions = policy.assumptions.model_copy(update=_set_fields(given))
    return policy.model_copy(update={"assumptions": assumptions})


def _set_fields(model: BaseModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in model.model_fields_set}


def merged(old: Any, new: Any) -> Any:
    """Lay `new` over `old`, in the form that strict validation takes: tuples, and only what was set."""
    if isinstance(new, list | tuple):
        return tuple(merged(None, item) for item in new)
    if not isinstance(new, Mapping) or isinstance(old, Distribution | Moment):
        return new
    kept = _set_fields(old) if isinstance(old, BaseModel) else dict(old) if isinstance(old, Mapping) else {}
    return kept | {key: merged(kept.get(key), value) for key, value in new.items()}
