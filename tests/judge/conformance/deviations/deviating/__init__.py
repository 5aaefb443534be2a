"""Deviating deployments: each breaks one fact of the specification, by wrapping rules of the service."""

from deviating.checks import CHECKS
from deviating.connections import OVER_GRAPHQL
from deviating.hooks import HOOKS
from deviating.kit import SIZES, Deviation
from deviating.rates import RATES
from deviating.repeats import REPEATS
from deviating.shapes import SHAPES

TABLE: tuple[Deviation, ...] = (*RATES, *CHECKS, *REPEATS, *OVER_GRAPHQL, *HOOKS, *SHAPES)
"""All of them, in the order of the report."""

__all__ = ["SIZES", "TABLE", "Deviation"]
