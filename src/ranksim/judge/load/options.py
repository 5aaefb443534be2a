"""What a load run is asked to do, on Locust's command line or in the environment, and target files.

A target file is the deployment to load, in strict YAML:

    environments:
      production: https://api.example.com
      sandbox: https://sandbox.example.com
    keys:
      main: {token: "env:API_KEY"}
      scoped: {token: "env:SCOPED_KEY", purpose: scoped, domain_id: dom_1}
      test: {token: "env:TEST_KEY", environment: sandbox, purpose: other_environment}
    spend_cap: 5 USD

Everything but one environment and one key may be left out. A token "env:NAME" is taken from the environment
variable NAME.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ranksim.core.addresses import LOOPBACK
from ranksim.core.callers.target import Target, limit_percent
from ranksim.core.clock import Micros, length_in_micros
from ranksim.core.contract.located import validate
from ranksim.core.contract.yamlfile import read_yaml
from ranksim.core.errors import BadInput, read_at
from ranksim.core.money import money

CAUTIOUS_CAP: int = money("2 USD")
"""What a run spends at most (µUSD) unless it is told otherwise, here as elsewhere: a tunnel begins here."""

NO_CAP = "none"
"""What --spend-cap says for no cap at all."""

KEY = "RANKSIM_KEY"
"""The environment variable that holds the API key, which stands on no command line of Locust."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of a run; `file` is the target file, "" without one."""

    host: str = ""
    file: str = ""
    out: str = ""
    spend_cap: str = ""
    dry_run_only: bool = False
    sharing: str = ""
    gzip: bool = False
    seed: int | None = None
    read_only: bool = False
    limit_share: str = ""
    fail_on: tuple[str, ...] = ()
    """Thresholds, where Locust's own command line has them."""

    @classmethod
    def of(cls, environment: Any) -> LoadOptions:
        """Read them from a Locust environment."""
        given = {name: value for name, value in vars(environment.parsed_options).items() if value is not None}
        names = ("out", "spend_cap", "dry_run_only", "sharing", "gzip", "seed", "fail_on")
        own = {name: given[name] for name in names if name in given}
        return cls(environment.host or "", given.get("target", ""), **own)

    @classmethod
    def from_arguments(
        cls,
        host: str,
        target: str | Path,
        out: str | Path,
        spend_cap: str,
        dry_run_only: bool,
        exclusive: bool | None,
        gzip: bool = False,
        seed: int | None = None,
        read_only: bool = False,
        limit_share: str = "",
    ) -> LoadOptions:
        """Return what a caller in Python asks for. Raises BadInput for both a host and a target."""
        if target and host:
            raise BadInput("host: expected either host and key or target, found both")
        file = str(Path(target).resolve()) if target else ""
        sharing = "" if exclusive is None else "exclusive" if exclusive else "shared"
        return cls(host, file, str(out), spend_cap, dry_run_only, sharing, gzip, seed, read_only, limit_share)

    def target(self) -> Target:
        """Read the target file, or make do with a base URL and a key. Raises BadInput.

        What it may spend is bounded by `CAUTIOUS_CAP` unless the file or the options say otherwise.
        """
        if self.file:
            target = read_target(self.file)
            exclusive = target.exclusive if "exclusive" in target.model_fields_set else is_local(target)
        else:
            target = self._simple()
            exclusive = True
        if self.sharing:
            exclusive = self.sharing == "exclusive"
        cap: int | None = CAUTIOUS_CAP if target.spend_cap is None else target.spend_cap
        if self.spend_cap:
            cap = None if self.spend_cap == NO_CAP else read_at("--spend-cap", _cap, self.spend_cap)
        read_only, share = self.read_only or target.read_only, target.limit_share
        if self.limit_share:
            share = read_at("--limit-share", limit_percent, self.limit_share)
        return target.model_copy(
            update={
                "spend_cap": cap,
                "dry_run_only": self.dry_run_only or target.dry_run_only or read_only,
                "read_only": read_only,
                "limit_share": read_at("--limit-share", limit_percent, share)
                if share
                else target.limit_share,
                "exclusive": exclusive,
            }
        )

    def variables(self) -> dict[str, str]:
        """Return them as environment variables, which our arguments of Locust are read from."""
        values = {
            "TARGET": self.file,
            "SPEND_CAP": self.spend_cap,
            "DRY_RUN_ONLY": "true" if self.dry_run_only else "",
            "SHARING": self.sharing,
            "GZIP": "true" if self.gzip else "",
            "SEED": "" if self.seed is None else str(self.seed),
        }
        return {f"RANKSIM_LOAD_{name}": value for name, value in values.items() if value}

    def directory(self, profile: str) -> Path:
        """Where the trace goes: a new directory here, unless one is named."""
        return Path(self.out or f"load-{profile}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")

    def _simple(self) -> Target:
        if not self.host:
            raise BadInput("no deployment is named: give --host and a key, or --target FILE")
        token = os.environ.get(KEY, "")
        if not token:
            raise BadInput(f"no API key: set {KEY} to one, or give --target FILE with keys")
        try:
            return Target.simple(with_scheme(self.host), token, os.environ)
        except BadInput as error:
            message = str(error).replace("target: environments.production:", "--host:")
            raise BadInput(message.replace("target: keys.main.token:", f"{KEY}:")) from None


def writable(target: Target) -> Target:
    """Return a target for what does more than read. Raises BadInput for one that is only to be read."""
    if target.read_only:
        raise BadInput("target: read_only: only `ranksim check` reads alone; give a target file without it")
    return target


def read_target(path: str | Path) -> Target:
    """Read a target file; its `policy` is relative to it. Raises BadInput naming the line."""
    located = read_yaml(path, "target")
    target = validate(Target, located, os.environ)
    if target.policy is None:
        return target
    policy = Path(path).parent / target.policy
    if not policy.is_file():
        raise located.error(f"no such file as {str(policy)!r}; give the path of a policy", "policy")
    return target.model_copy(update={"policy": str(policy)})


@contextmanager
def key_in_environment(key: str) -> Iterator[None]:
    """Have the environment hold a key, if one is given, as long as processes are begun that inherit it."""
    before = os.environ.get(KEY)
    if key:
        os.environ[KEY] = key
    try:
        yield
    finally:
        if before is not None:
            os.environ[KEY] = before
        elif key:
            del os.environ[KEY]


def length_of(length: str | timedelta, where: str = "length") -> Micros:
    """Return in µs a length with its unit, as 90s or a timedelta. Raises BadInput that says `where`."""
    micros = read_at(where, length_in_micros, length)
    if micros <= 0:
        raise BadInput(f"{where}: expected a length such as 90s, found {length!r}")
    return micros


def with_scheme(host: str) -> str:
    """Return a base URL; one of this machine may be given without its scheme, as localhost:8080."""
    bare = re.match(r"(localhost|127\.0\.0\.1|\[::1\])(?=[:/]|$)", host)
    return f"http://{host}" if bare else host


def is_local(deployment: Target) -> bool:
    """Return whether all of a deployment is on this machine."""
    return all(urlsplit(url).hostname in LOOPBACK for url in deployment.environments.values())


def add_arguments(parser: Any) -> None:
    """Add our options to Locust's parser; not the key, which would be sent to workers and shown."""
    for name, help_text, further in (
        ("--target", "YAML file of the deployment: addresses, keys and limits; instead of --host", {}),
        ("--out", "directory for the trace; a new one in this directory without", {}),
        ("--spend-cap", "the most to spend, such as '5 USD', or none; 2 USD without", {}),
        ("--dry-run-only", "spend and change nothing: read, and send dry runs", {"action": "store_true"}),
        ("--sharing", "exclusive or shared: whether others use these accounts", {"choices": SHARING}),
        ("--gzip", "pack the trace", {"action": "store_true"}),
        ("--seed", "seed of what the programs draw", {"type": int}),
        ("--fail-on", "exit with 1 unless this holds, such as 'p95 < 500ms'", {"action": "append"}),
    ):
        variable = "RANKSIM_LOAD_" + name.strip("-").replace("-", "_").upper()
        parser.add_argument(name, help=help_text, env_var=variable, include_in_web_ui=False, **further)


SHARING = ("exclusive", "shared")


def _cap(text: str) -> int:
    if not isinstance(text, str):
        raise ValueError(f"write an amount such as '15 USD', found {text!r}")
    return money(text)
