"""Target files: the deployment to load, in strict YAML.

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
from pathlib import Path

from ranksim.core.callers.target import Target
from ranksim.core.contract.located import validate
from ranksim.core.contract.yamlfile import read_yaml


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
