"""Accounts, their keys, and the plans that there are."""

from __future__ import annotations

from ranksim.core.clock import iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, near
from ranksim.core.service.administration import STATUSES
from ranksim.core.service.standing import head_of
from ranksim.core.service.state import Account, Key
from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import ControlRequest, Missing
from ranksim.twin.facade.twin import Twin


async def list_plans(twin: Twin, request: ControlRequest) -> schemas.PlanList:
    """List the plans and add-ons of the policy."""
    catalogue = twin.policy.catalogue.model_dump(mode="json", include={"plans", "add_ons"})
    return {"plans": catalogue["plans"], "add_ons": catalogue["add_ons"]}


async def list_accounts(twin: Twin, request: ControlRequest) -> schemas.AccountList:
    """List the accounts of both environments."""
    return {"data": [_account_shown(twin, account) for account in twin.service.state.accounts.values()]}


async def open_account(twin: Twin, request: ControlRequest) -> schemas.AccountShown:
    """Open an account, with a key."""
    body: schemas.AccountBody = request.body
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


async def get_account(twin: Twin, request: ControlRequest) -> schemas.AccountShown:
    """Read an account."""
    return _account_shown(twin, _account(twin, request.path["id"]))


async def change_account(twin: Twin, request: ControlRequest) -> schemas.AccountShown:
    """Change an account's plan, status or add-ons, all or nothing."""
    body: schemas.AccountPatch = request.body
    account = _account(twin, request.path["id"])
    _known(twin.policy, body)
    if body.plan is not None:
        twin.administer("change_plan", account=account.id, plan=body.plan)
    if body.status is not None:
        twin.administer("set_status", account=account.id, status=body.status)
    for add_on, count in body.add_ons.items():
        twin.administer("set_add_on", account=account.id, add_on=add_on, count=count)
    return _account_shown(twin, account)


def _known(policy: Policy, body: schemas.AccountPatch) -> None:
    """Raise BadInput for names that do not exist, before anything is changed."""
    catalogue = policy.catalogue
    for what, names, known in (
        ("plan", [body.plan] if body.plan is not None else [], tuple(catalogue.plans)),
        ("status", [body.status] if body.status is not None else [], STATUSES),
        ("add_ons", list(body.add_ons), tuple(catalogue.add_ons)),
    ):
        for name in names:
            if name not in known:
                raise BadInput(
                    f"body: {what}: expected one of {', '.join(known)}, found {name!r}{near(name, known)}"
                )


async def list_keys(twin: Twin, request: ControlRequest) -> schemas.KeyList:
    """List the API keys, withdrawn ones included."""
    query: schemas.AccountQuery = request.query
    found = [key for key in twin.service.state.keys.values() if query.account_id in (None, key.account)]
    return {"data": [_key_shown(key) for key in found]}


async def issue_key(twin: Twin, request: ControlRequest) -> schemas.KeyShown:
    """Issue a further API key, which may be bound to one domain."""
    body: schemas.KeyBody = request.body
    _account(twin, body.account_id)
    token = twin.administer("issue_key", account=body.account_id, name=body.name, domain=body.domain_id)
    return _key_shown(twin.service.state.keys[token])


async def reset_key(twin: Twin, request: ControlRequest) -> schemas.KeyShown:
    """Withdraw an API key and issue another in its place, of the same name and domain."""
    old = _valid_key(twin, request)
    token = twin.administer("issue_key", account=old.account, name=old.name, domain=old.domain)
    twin.administer("withdraw_key", token=old.token)
    return _key_shown(twin.service.state.keys[token])


async def withdraw_key(twin: Twin, request: ControlRequest) -> schemas.KeyShown:
    """Withdraw an API key: from now on it is unknown."""
    key = _valid_key(twin, request)
    twin.administer("withdraw_key", token=key.token)
    return _key_shown(key)


def _valid_key(twin: Twin, request: ControlRequest) -> Key:
    key = twin.service.state.keys.get(request.path["key"])
    if key is None or key.withdrawn:
        raise Missing(f"key: there is none {request.path['key']!r}, or it was withdrawn")
    return key


def _account(twin: Twin, account: str) -> Account:
    if account not in twin.service.state.accounts:
        raise Missing(f"account: there is none with the id {account!r}")
    return twin.service.state.accounts[account]


def _account_shown(twin: Twin, account: Account) -> schemas.AccountShown:
    return {
        **head_of(account),
        "billing_anchor": iso(account.books.anchor),
        "created_at": iso(account.created_at),
        "keys": [_key_shown(key) for key in twin.service.state.keys.values() if key.account == account.id],
    }


def _key_shown(key: Key) -> schemas.KeyShown:
    return {
        "key": key.token,
        "name": key.name,
        "account_id": key.account,
        "environment": key.environment,
        "domain_id": key.domain,
        "created_at": iso(key.created_at),
        "withdrawn": key.withdrawn,
    }
