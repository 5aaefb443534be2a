"""Replies of the second deployment that are spoilt on their way out: what needs no state to be wrong."""

import uuid

KINDS = {401: "401", 404: "404", 422: "422", 429: "429"}


def spoil(breaks, name, status, headers, body):
    """The status and body of a reply, spoilt in the ways that `breaks` names; so are its headers."""
    for said in sorted(breaks):
        way, _, argument = said.partition(" ")
        if way in SPOILERS and not isinstance(body, bytes):
            status, body = SPOILERS[way](argument, name, status, headers, body)
    return status, body


def kind_of(status, body):
    """What sort of reply it is: "created", "dry run", "404", "refused by a check"."""
    data = body.get("data") if isinstance(body, dict) else None
    if status < 300:
        if isinstance(data, dict) and data.get("dry_run"):
            return "dry run"
        return "created" if status == 201 else "success"
    code = body.get("code") if isinstance(body, dict) else ""
    return "refused by a check" if code in CHECKED else KINDS.get(status, str(status))


CHECKED = (
    "entitlement_required",
    "subscription_inactive",
    "cost_cap_reached",
    "quota_exhausted",
    "slot_limit_exceeded",
    "cooldown_active",
)


def things(name, noun, body):
    """The things of a reply, if it is of that noun."""
    if not name.startswith(noun) or not isinstance(body, dict):
        return []
    data = body.get("data")
    return [one for one in (data if isinstance(data, list) else [data]) if isinstance(one, dict)]


def is_error(error, status, body):
    return status >= 400 and isinstance(body, dict) and error in (body.get("code"), str(status))


def no_data(which, name, status, headers, body):
    return status, body["data"] if name == which and status < 300 and "data" in body else body


def not_json(which, name, status, headers, body):
    return status, b"<ok/>" if name == which and status < 300 else body


def no_more(which, name, status, headers, body):
    if name == which and status < 300:
        body.pop("has_more", None)
    return status, body


def no_field(argument, name, status, headers, body):
    which, lacking = argument.split()
    if name == which and status < 300:
        for one in things(name, which.partition(".")[0], body):
            one.pop(lacking, None)
    return status, body


def error_in_data(error, name, status, headers, body):
    return status, {"data": body} if is_error(error, status, body) else body


STATES = {"done": "done", "failed": "error", "running": "running", "queued": "pending"}


def unfinished(state, name, status, headers, body):
    for job in things(name, "jobs", body):
        if job.get("status") == STATES[state]:
            job["finished_at"] = None
    return status, body


def reason(state, name, status, headers, body):
    for job in things(name, "jobs", body):
        if job.get("status") == STATES[state]:
            job["error_detail"] = None if state == "failed" else "Something went wrong."
    return status, body


def no_progress(_, name, status, headers, body):
    for job in things(name, "jobs", body):
        job.pop("progress", None)
    return status, body


def time_form(field, name, status, headers, body):
    def reformed(value):
        if isinstance(value, list):
            return [reformed(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: one.replace("T", " ").partition("+")[0]
            if key == field and isinstance(one, str)
            else reformed(one)
            for key, one in value.items()
        }

    return status, reformed(body) if status < 300 else body


def no_header(argument, name, status, headers, body):
    header, _, kind = argument.partition(" ")
    if kind_of(status, body) == kind:
        headers.pop(header, None)
    return status, body


def no_cors(kind, name, status, headers, body):
    if (status < 300) == (kind == "success"):
        headers.pop("access-control-allow-origin", None)
    return status, body


def error_lacks(error, name, status, headers, body):
    if is_error(error, status, body):
        body.pop("remedy", None)
    return status, body


def error_type(error, name, status, headers, body):
    if is_error(error, status, body):
        body["type"] = "https://docs.elsewhere.example/api/errors#other"
    return status, body


def error_id(error, name, status, headers, body):
    if is_error(error, status, body):
        body["request_id"] = str(uuid.UUID(int=status))
    return status, body


def other_code(code, name, status, headers, body):
    if is_error(code, status, body):
        body["code"] = "not_" + code
        body["type"] = body["documentation_url"] = body["type"].partition("#")[0] + "#not_" + code
    return status, body


def meta_lacks(argument, name, status, headers, body):
    code, field = argument.split()
    if is_error(code, status, body):
        body["meta"].pop(field, None)
    return status, body


def other_status(argument, name, status, headers, body):
    code, other = argument.split()
    if is_error(code, status, body):
        body["status"] = status = int(other)
    return status, body


def no_retry_after(kind, name, status, headers, body):
    if status == 429 and body["meta"].get("class") == kind:
        headers.pop("retry-after", None)
    return status, body


def deprecated(_, name, status, headers, body):
    headers["deprecation"] = "@1790000000"
    return status, body


def no_resets(_, name, status, headers, body):
    if name == "account.usage" and status < 300:
        for metric in body["data"]["metrics"]:
            metric.pop("resets_at")
    return status, body


SPOILERS = {
    "no-data": no_data,
    "not-json": not_json,
    "no-more": no_more,
    "no-field": no_field,
    "error-in-data": error_in_data,
    "unfinished": unfinished,
    "reason": reason,
    "no-progress": no_progress,
    "time-form": time_form,
    "no-header": no_header,
    "no-cors": no_cors,
    "error-lacks": error_lacks,
    "error-type": error_type,
    "error-id": error_id,
    "other-code": other_code,
    "meta-lacks": meta_lacks,
    "other-status": other_status,
    "no-retry-after": no_retry_after,
    "deprecated": deprecated,
    "no-resets": no_resets,
}
