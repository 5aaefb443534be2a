"""A deployment as its callers know it: its addresses, the keys to use, and what may be spent.

A token "env:NAME" stands for the environment variable NAME, which validation is handed as its context: what
reads the environment, and target files, is `ranksim.judge.load.options`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator
from pydantic.json_schema import SkipJsonSchema

from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.quantities import Frozen, Money
from ranksim.core.trace import UNKNOWN_KEY

Purpose = Literal["full", "scoped", "second", "other_account", "other_environment", "past_due", "near_limit"]
"""What a key is for: all of an account, one domain, a second key of the main account, another account,
the other environment, an account that is past due, an account that is near its limits."""

UNKNOWN = UNKNOWN_KEY
"""The name of a key that no target has: what is sent for it is a made-up token."""


def _token(given: Any, info: ValidationInfo) -> Any:
    if not isinstance(given, str) or not given.startswith("env:"):
        return given
    name = given.removeprefix("env:")
    token = (info.context or {}).get(name)
    if not token:
        raise ValueError(f"the environment variable {name} is not set; set it to the token")
    return token


def _sendable(token: str) -> str:
    """Validate what stands in a header; a wrong one is not shown."""
    if re.fullmatch("[!-~]+", token) is None:
        raise ValueError(
            "expected an API key or token, which has letters and signs of ASCII only and no space"
        )
    return token


def _url(given: str) -> str:
    """Validate a URL that requests can be sent to; it names no user, since the key says who asks."""
    try:
        sound = _URL.fullmatch(given) is not None and urlsplit(given).port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(f"expected a URL such as https://api.example.com, found {given!r}")
    return given


def _base(given: str) -> str:
    """Validate a URL that paths are put behind."""
    if "?" in given or "#" in given:
        raise ValueError(f"expected a URL without a query or fragment, found {given!r}")
    return given.rstrip("/")


_URL = re.compile(r"https?://[^/?#@\s]+([/?#][!-~]*)?")

Token = Annotated[str, BeforeValidator(_token), Field(min_length=1), AfterValidator(_sendable)]
Url = Annotated[str, AfterValidator(_url)]
Base = Annotated[Url, AfterValidator(_base)]
ApiBase = Annotated[Base, AfterValidator(lambda given: given.removesuffix("/v1").rstrip("/"))]


def limit_percent(share: Any) -> int:
    """Read a percentage such as "10%". Raises ValueError."""
    match = re.fullmatch(r"(\d{1,3}) ?%", share) if isinstance(share, str) else None
    percent = int(match[1]) if match else share if type(share) is int else 0
    if not 1 <= percent <= LARGEST_SHARE:
        raise ValueError(f"expected such as 10%, from 1% to {LARGEST_SHARE}%, found {share!r}")
    return percent


DEFAULT_SHARE, LARGEST_SHARE = 10, 50
"""Percent of a rate limit that a check takes which reads alone, and that it may take."""

Percent = Annotated[int, BeforeValidator(limit_percent, json_schema_input_type=str)]

DomainId = Annotated[str, Field(min_length=1)]


class TargetKey(Frozen):
    """An API key: its token, the environment where it works, what it is for, and whose it is where known.

    `variable` is the environment variable that has the token, where one does.
    """

    token: Token = Field(repr=False)
    environment: str = "production"
    purpose: Purpose = "full"
    account: str = ""
    domain_id: str | None = None
    variable: SkipJsonSchema[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _variable(cls, given: Any) -> Any:
        token = given.get("token") if isinstance(given, Mapping) else None
        if not isinstance(token, str) or not token.startswith("env:"):
            return given
        return {**given, "variable": token.removeprefix("env:")}


class Target(Frozen):
    """A deployment, and what a load run may do to it.

    `environments` are base URLs by name, without the /v1; `graphql` their GraphQL URLs as they are, by
    default the base URL and "/graphql". `receiver` is the public base URL under which the deployment reaches
    our webhook receiver, when that is not the address it listens at; `receiver_token` is what its control API
    wants. `policy` is the path of a policy file to judge by.
    Business time at the deployment runs `time_scale` times as fast as ours, the clock of its rate windows
    `traffic_scale` times. `spend_cap` (µUSD) and `dry_run_only` bound what the run may spend; `read_only` has
    a check send reads alone, at most `limit_share` percent of what a rate limit admits. `exclusive`
    says that nobody else uses these accounts meanwhile, without which "refused too early" cannot be told; a
    file that does not say it is taken to mean so where all of the deployment is on this machine.
    A run writes to what it made itself. `use_domains` are ids of domains of yours in which it may run jobs
    and make things, too; what is there already is neither changed nor removed. `failing_domain` is one of
    them: that whose jobs fail.
    """

    environments: Annotated[dict[str, ApiBase], Field(min_length=1)]
    keys: Annotated[dict[str, TargetKey], Field(min_length=1)]
    graphql: dict[str, Url] = Field(default_factory=dict)
    receiver: Base | None = None
    receiver_token: Token | None = Field(None, repr=False)
    policy: str | None = None
    time_scale: Annotated[int, Field(ge=1)] = 1
    traffic_scale: Annotated[int, Field(ge=1)] = 1
    spend_cap: Annotated[Money, Field(ge=0)] | None = None
    dry_run_only: bool = False
    read_only: bool = False
    limit_share: Percent = DEFAULT_SHARE
    exclusive: bool = False
    use_domains: tuple[DomainId, ...] = ()
    failing_domain: DomainId | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, key in self.keys.items():
            if key.environment not in self.environments:
                raise ValueError(
                    f"key {name!r} is of the environment {key.environment!r}; "
                    f"expected one of environments: {', '.join(self.environments)}"
                )
        if self.receiver_token and self.receiver is None:
            raise ValueError("receiver_token: there is no receiver; give its URL, or leave the token out")
        if UNKNOWN in self.keys:
            raise ValueError(f"no key may be called {UNKNOWN!r}, which names a key that does not exist")
        for name in self.graphql:
            if name not in self.environments:
                raise ValueError(f"graphql: there is no environment {name!r}; add it to environments")
        return self

    @property
    def usable_domains(self) -> frozenset[str]:
        """The ids of all domains that were there before and may be used."""
        failing = () if self.failing_domain is None else (self.failing_domain,)
        return frozenset((*self.use_domains, *failing))

    @classmethod
    def simple(cls, host: str, token: str, variables: Mapping[str, str] | None = None) -> Self:
        """Build the target of a base URL and one key. Raises BadInput.

        `variables` are the environment variables that a token "env:NAME" is looked up in.
        """
        given = {"environments": {"production": host}, "keys": {"main": {"token": token}}}
        return validate(cls, Located("target", given, {}), variables)

    def token(self, key: str) -> str | None:
        """Return what a key's requests carry: None for "", and a token that nobody has for a name unknown."""
        if not key:
            return None
        return self.keys[key].token if key in self.keys else f"rk_none_{key}"

    def environment_of(self, key: str) -> str:
        """Return the environment where a key belongs; the first one for no key and for unknown ones."""
        return self.keys[key].environment if key in self.keys else next(iter(self.environments))

    def graphql_url(self, environment: str) -> str:
        """Return the GraphQL URL of an environment."""
        return self.graphql.get(environment) or self.environments[environment] + "/graphql"
