"""docs/scenarios.md names every field, client, action and metric that a scenario can have."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from ranksim.core.callers.portfolio import AccountSpec, PortfolioSpec, ScanSpec
from ranksim.core.callers.programs import AnyClient
from ranksim.twin.sim.metric_families import ABOUT, CALLS, DELIVERIES, JOBS
from ranksim.twin.sim.receivers import OutageSpec, ReceiverSpec
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.scenario_fields import Precision
from ranksim.twin.sim.tables import COLUMNS
from ranksim.twin.sim.timeline import Action
from ranksim.twin.sim.workers import PoolSpec

PAGE = (Path(__file__).parents[1] / "docs" / "scenarios.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", PAGE))))

MODELS = [
    Scenario,
    Precision,
    AccountSpec,
    PortfolioSpec,
    ScanSpec,
    PoolSpec,
    ReceiverSpec,
    OutageSpec,
    *get_args(AnyClient),
]


def fields(model: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in model.model_fields.items()}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_named(model: type[BaseModel]) -> None:
    known = WORDS | {"kind", "plan", "accounts"}
    assert fields(model) - known == set()


def test_every_client_action_and_metric_is_named() -> None:
    kinds = {model.model_fields["kind"].default for model in get_args(AnyClient)}
    actions = {get_args(model.model_fields["do"].annotation)[0] for model in get_args(get_args(Action)[0])}
    metrics = {*CALLS, *DELIVERIES, *JOBS, *ABOUT}
    for names in (kinds, actions, metrics, set(COLUMNS)):
        assert names - WORDS == set()
