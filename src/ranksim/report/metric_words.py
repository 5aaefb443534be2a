"""Metrics in words, for people who do not know their names."""

from __future__ import annotations

ONE = "1"
"""The count that has no plural."""

OF_CALLS = {
    "total": "call*{of} ~ made",
    "accepted": "call*{of} ~ accepted",
    "ok": "call*{of} ~ answered",
    "granted": "call*{of} ~ granted",
    "dry_run": "dry run*{of} ~ made",
    "joined": "call*{of} ~ joined to a job under way",
    "refused": "call*{of} ~ refused by a check",
    "replayed": "call*{of} ~ answered as once before",
    "limited": "call*{of} ~ rate limited",
    "error": "call*{of} ~ answered with an error",
    "refusals": "call*{of} ~ refused",
    "unanswered": "call*{of} ~ not answered",
}

OF_REFUSALS = {"total": "call* ~ refused", "share": "share of calls that are refused"}

OF_JOBS = {
    "queued": "{name} job* ~ queued",
    "started": "{name} job* ~ started",
    "done": "{name} job* ~ done",
    "failed": "{name} job* failed",
    "joined": "call* ~ joined to a {name} job under way",
    "max_waiting": "{name} job* waited at once at most",
    "mean_waiting": "mean number of {name} jobs that wait",
    "utilisation": "share of the time that {name} workers are busy",
}

OF_WEBHOOKS = {
    "events": "event* ~ meant for {name}",
    "sent": "attempt* ~ made at {name}",
    "failed": "attempt* at {name} failed",
    "acknowledged": "event* ~ acknowledged by {name}",
    "lost": "event* for {name} ~ lost",
    "lost_exhausted": "event* for {name} ~ lost after the last attempt",
    "lost_cancelled": "event* for {name} ~ lost as it was disabled",
    "lost_suppressed": "event* for {name} ~ never sent as it was disabled",
    "pending": "event* for {name} ~ still to be sent",
    "duplicates": "event* ~ sent to {name} twice",
    "disabled": "disabling* of {name}",
    "disabled_at": "first disabling of {name}",
}

OF_ACCOUNTS = {
    "slots": {
        "max_used": "slot* of {name} ~ used at most",
        "used": "slot* of {name} ~ used at the end",
        "active": "slot* of {name} ~ active at the end",
        "held": "slot* of {name} ~ held at the end",
    },
    "spend": {
        "max": "highest provider cost of {name} in a month",
        "spent": "provider cost of {name} in the last month",
        "settled": "settled provider cost of {name} in the last month",
        "reserved": "reserved provider cost of {name} at the end",
    },
    "invoice": {"total": "invoices of {name} in all"},
    "meters": {
        "max": "{metric} of {name} ~ used at most",
        "used": "{metric} of {name} ~ used at the end",
    },
    "windows": {
        "admitted": "{metric} call* of {name} ~ admitted",
        "refused": "{metric} call* of {name} ~ rate limited",
    },
}

TIMES = {
    "wait": ("wait", "waits", "of {name} jobs"),
    "delay": ("delay", "delays", "of events for {name}"),
    "response_time": ("response time", "response times", "of {name}"),
}

MEASURES = {"mean": "mean", "p50": "median", "max": "longest"}
"""Of durations; a percentile is written as one."""


def label(metric: str, value: str = "") -> str:
    """The name of a metric in words, as it stands below its value: events for four lost."""
    return _spoken(_template(metric), value).replace("~ ", "")


def statement(metric: str, value: str) -> str:
    """What a metric and its value say: 1 call was refused, the longest wait of crawl jobs was 41m."""
    template = _template(metric)
    if "*" not in template and "~" not in template:
        return f"the {template} was {value}"
    return f"{value} {_spoken(template, value)}".replace("~", "was" if value == ONE else "were")


def _spoken(template: str, value: str) -> str:
    return template.replace("*", "" if value == ONE else "s")


def _template(metric: str) -> str:
    """The words of a metric: `*` is where a plural ends, `~` where a sentence has its verb.

    A metric that is unknown here is its name.
    """
    family, _, rest = metric.partition(".")
    name, _, field = rest.rpartition(".")
    inner, _, last = name.rpartition(".")
    if last in TIMES:
        return _time(last, field).format(name=inner or "receivers")
    match family:
        case "refusals":
            return OF_REFUSALS.get(field, f"call* ~ refused with {field}")
        case "calls" | "clients":
            return OF_CALLS.get(field, metric).format(of=f" of {name}" if name else "")
        case "jobs":
            return OF_JOBS.get(field, metric).format(name=name).lstrip()
        case "endpoints" | "deliveries":
            return OF_WEBHOOKS.get(field, metric).format(name=name or "receivers")
        case "meters" | "windows":
            return OF_ACCOUNTS[family].get(field, metric).format(name=inner.rpartition(".")[2], metric=last)
        case "invoice" if field != "total":
            return f"invoice of {name} for {field}"
        case _:
            return OF_ACCOUNTS.get(family, {}).get(field, metric).format(name=name)


def _time(what: str, field: str) -> str:
    one, several, of = TIMES[what]
    measure = MEASURES.get(field)
    return f"{measure} {one} {of}" if measure else f"{field.removeprefix('p')}th percentile of {several} {of}"
