"""Accounts, their keys, and the plans that there are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.clock import iso
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Frozen
from ranksim.core.errors import BadInput, near
from ranksim.core.service.administration import STATUSES
from ranksim.core.service.bodies import CONTROLS
from ranksim.core.service.standing import AccountHead, head_of
from ranksim.core.service.state import Account, Key
from ranksim.twin.facade.control.command import Environment, Instant, Json, Missing, Router, look_up
from ranksim.twin.facade.twin import Twin

Status = Annotated[str, WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=rf"^[^{CONTROLS}]+$")]

router = Router()


class AccountBody(Frozen):
    """An account to open."""

    name: Name
    plan: str | None = Field(None, description="By default the plan of the demo accounts.")
    environment: Environment = "production"
    status: Status = "active"
    add_ons: dict[str, int] = Field({}, description="How many of each it has.")
    anchor: Instant | None = Field(None, description="Where its billing months begin; by default now.")
    key: Name | None = Field("default", description="The name of its first key; null for none.")


class AccountPatch(Frozen):
    """What changes of an account, all or nothing; what is left out stays."""

    plan: str | None = None
    status: Status | None = None
    add_ons: dict[str, Annotated[int, Field(ge=0)]] = Field({}, description="How many of each it has.")


class KeyBody(Frozen):
    """A key to issue."""

    account_id: str
    name: Name = "default"
    domain_id: str | None = Field(None, description="The only domain that it may see; by default all.")


class KeyShown(TypedDict):
    """An API key."""

    key: str
    name: str
    account_id: str
    environment: str
    domain_id: str | None
    created_at: str
    withdrawn: bool


class KeyList(TypedDict):
    """Keys, in order of creation."""

    data: list[KeyShown]


class AccountShown(AccountHead):
    """An account, with its keys."""

    billing_anchor: str
    created_at: str
    keys: list[KeyShown]


class AccountList(TypedDict):
    """Accounts, in order of creation."""

    data: list[AccountShown]


class PlanList(TypedDict):
    """The plans and add-ons of the policy, as a policy file has them."""

    plans: Json
    add_ons: Json


class AccountQuery(Frozen):
    """Whose keys."""

    account_id: str | None = None


@router.add("GET", "/plans")
async def list_plans(twin: Twin) -> PlanList:
    """List the plans and add-ons of the policy."""
    catalogue = twin.policy.catalogue.model_dump(mode="json", include={"plans", "add_ons"})
    return {"plans": catalogue["plans"], "add_ons": catalogue["add_ons"]}


@router.add("GET", "/accounts")
async def list_accounts(twin: Twin) -> AccountList:
    """List the accounts of both environments."""
    return {"data": [_account_shown(twin, account) for account in twin.service.state.accounts.values()]}


@router.add("POST", "/accounts", status=201, example={"name": "acme", "plan": "starter"})
async def open_account(twin: Twin, body: AccountBody) -> AccountShown:
    """Open an account, with a key."""
    opened = twin.administer(
        "open_account",
        name=body.name,
        plan=body.plan or twin.plan,
        environment=body.environment,
        status=body.status,
        add_ons=dict(body.add_ons),
        anchor=body.anchor,
    )
    if body.key is not None:
        twin.administer("issue_key", account=opened, name=body.key)
    return _account_shown(twin, twin.service.state.accounts[opened])


@router.add("GET", "/accounts/{id}")
async def get_account(twin: Twin, account: str) -> AccountShown:
    """Read an account."""
    return _account_shown(twin, look_up(twin.service.state.accounts, account, "account"))


@router.add("PATCH", "/accounts/{id}", example={"plan": "pro"})
async def change_account(twin: Twin, account: str, body: AccountPatch) -> AccountShown:
    """Change an account's plan, status or add-ons, all or nothing."""
    changed = look_up(twin.service.state.accounts, account, "account")
    _check_names(twin.policy, body)
    if body.plan is not None:
        twin.administer("change_plan", account=account, plan=body.plan)
    if body.status is not None:
        twin.administer("set_status", account=account, status=body.status)
    for add_on, count in body.add_ons.items():
        twin.administer("set_add_on", account=account, add_on=add_on, count=count)
    return _account_shown(twin, changed)


def _check_names(policy: Policy, body: AccountPatch) -> None:
    """Raise BadInput for names that do not exist, before anything is changed."""
    catalogue = policy.catalogue
    for what, names, choices in (
        ("plan", [body.plan] if body.plan is not None else [], tuple(catalogue.plans)),
        ("status", [body.status] if body.status is not None else [], STATUSES),
        ("add_ons", list(body.add_ons), tuple(catalogue.add_ons)),
    ):
        for name in names:
            if name not in choices:
                raise BadInput(
                    f"body: {what}: expected one of {', '.join(choices)}, found {name!r}{near(name, choices)}"
                )


@router.add("GET", "/keys")
async def list_keys(twin: Twin, query: AccountQuery) -> KeyList:
    """List the API keys, withdrawn ones included."""
    keys = [key for key in twin.service.state.keys.values() if query.account_id in (None, key.account)]
    return {"data": [_key_shown(key) for key in keys]}


@router.add("POST", "/keys", status=201, example={"account_id": "", "name": "second"})
async def issue_key(twin: Twin, body: KeyBody) -> KeyShown:
    """Issue a further API key, which may be bound to one domain."""
    look_up(twin.service.state.accounts, body.account_id, "account")
    token = twin.administer("issue_key", account=body.account_id, name=body.name, domain=body.domain_id)
    return _key_shown(twin.service.state.keys[token])


@router.add("POST", "/keys/{key}/reset", status=201)
async def reset_key(twin: Twin, key: str) -> KeyShown:
    """Withdraw an API key and issue another in its place, of the same name and domain."""
    old = _valid_key(twin, key)
    token = twin.administer("issue_key", account=old.account, name=old.name, domain=old.domain)
    twin.administer("withdraw_key", token=old.token)
    return _key_shown(twin.service.state.keys[token])


@router.add("DELETE", "/keys/{key}")
async def withdraw_key(twin: Twin, key: str) -> KeyShown:
    """Withdraw an API key: from now on it is unknown."""
    old = _valid_key(twin, key)
    twin.administer("withdraw_key", token=key)
    return _key_shown(old)


def _valid_key(twin: Twin, token: str) -> Key:
    key = twin.service.state.keys.get(token)
    if key is None or key.withdrawn:
        raise Missing(f"key: there is none {token!r}, or it was withdrawn")
    return key


def _account_shown(twin: Twin, account: Account) -> AccountShown:
    return {
        **head_of(account),
        "billing_anchor": iso(account.books.anchor),
        "created_at": iso(account.created_at),
        "keys": [_key_shown(key) for key in twin.service.state.keys.values() if key.account == account.id],
    }


def _key_shown(key: Key) -> KeyShown:
    return {
        "key": key.token,
        "name": key.name,
        "account_id": key.account,
        "environment": key.environment,
        "domain_id": key.domain,
        "created_at": iso(key.created_at),
        "withdrawn": key.withdrawn,
    }
