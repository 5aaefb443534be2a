"""Amounts: distributions of numbers that are neither times nor money, drawn through their inverse CDF."""

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_serializer, model_validator

from ranksim.core.contract.quantities import NUMBER, STANDARD_NORMAL, Atomic, also, one_of

MOST = 1_000_000
"""The largest value that is drawn from a tail without `most`."""

PARAMETERS = {
    "constant": (),
    "uniform": ("low", "high"),
    "lognormal": ("median", "sigma"),
    "pareto": ("least", "shape"),
}

Number = Annotated[float, Field(ge=0, le=1e9)]


class Amount(Atomic):
    """A distribution of numbers.

    Written 5, {uniform: {low: 1, high: 9}}, {lognormal: {median: 5, sigma: 1}} or
    {pareto: {least: 5, shape: 1.5}}; the last two take `most`, beyond which nothing is drawn (a million
    unless said otherwise). `sigma` is the standard deviation of the logarithm, `shape` the tail index.
    """

    model_config = also(NUMBER, one_of(PARAMETERS, ("most",)))

    kind: Literal["constant", "uniform", "lognormal", "pareto"]
    first: Number
    second: Number = 0.0
    most: Number = MOST

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"kind": "constant", "first": float(value), "most": float(value)}
        if not isinstance(value, dict):
            raise ValueError(f"write a number or one of {', '.join(PARAMETERS)}, found {value!r}")
        if "kind" in value:
            return value
        if len(value) != 1:
            raise ValueError(f"write a number or one of {', '.join(PARAMETERS)}")
        ((kind, given),) = value.items()
        names = PARAMETERS.get(kind, ())
        if not names:
            raise ValueError(f"expected one of {', '.join(PARAMETERS)}, found {kind!r}")
        optional = {"most"} if kind != "uniform" else set()
        if not isinstance(given, dict) or not set(names) <= set(given) <= set(names) | optional:
            raise ValueError(f"{kind} takes {' and '.join((*names, *optional))}")
        first, second = (given[name] for name in names)
        most = second if kind == "uniform" else given.get("most", MOST)
        return {"kind": kind, "first": first, "second": second, "most": most}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "uniform" and self.first > self.second:
            raise ValueError("uniform wants low at most high")
        if self.kind == "pareto" and not self.second > 0:
            raise ValueError("pareto wants a shape above 0")
        if self.first > self.most:
            raise ValueError("most is below the smallest or middle value")
        return self

    @model_serializer
    def _write(self) -> Any:
        if self.kind == "constant":
            return self.first
        written = dict(zip(PARAMETERS[self.kind], (self.first, self.second), strict=True))
        if self.kind != "uniform":
            written["most"] = self.most
        return {self.kind: written}

    @property
    def largest(self) -> float:
        """The largest number that is drawn; what is spread around 0, or begins there, stays there."""
        return self.most if self.first > 0 or self.kind == "uniform" else 0.0

    def at(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers below which shares `u` of all draws lie; 0 < u < 1, shape (n,)."""
        if self.kind == "constant" or self.largest == 0:
            return np.full(u.shape, self.first)
        if self.kind == "uniform":
            return np.asarray(self.first + (self.second - self.first) * u)
        # One at a time, by the C library: the vector loops of NumPy may differ in the last bit.
        values = [self._of_tail(v) for v in u.tolist()]
        return np.minimum(np.array(values, dtype=np.float64), self.most)

    def _of_tail(self, u: float) -> float:
        try:
            if self.kind == "lognormal":
                return self.first * math.exp(self.second * STANDARD_NORMAL.inv_cdf(u))
            return float(self.first * (1.0 - u) ** (-1.0 / self.second))
        except OverflowError:
            return self.most

    def integers(self, u: NDArray[np.float64], least: int = 0) -> NDArray[np.int64]:
        """The same as whole numbers of at least `least`: rounded, but an evenly spread one has even odds."""
        if self.kind == "uniform":
            low, high = math.ceil(self.first), math.floor(self.second)
            drawn = low + np.floor(u * max(high - low + 1, 1))
        else:
            drawn = np.rint(self.at(u))
        return np.maximum(drawn.astype(np.int64), least)

    @classmethod
    def constant(cls, value: float) -> Self:
        """Always the same number."""
        return cls(kind="constant", first=value, most=value)
