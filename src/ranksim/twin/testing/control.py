"""What the control API offers of faults, limits and deliveries, as methods of a world inside a test.

The models of the control API take a while to build, so a world reads this module when it is first asked.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Literal

from ranksim.core.callers.fault_rules import (
    BodyKind,
    BundleName,
    BundleScope,
    Delivery,
    FaultRule,
    RetryAfterForm,
)
from ranksim.core.contract.located import Located, validate
from ranksim.core.service.administration import LIMITS
from ranksim.twin.facade.control import deliveries, faults
from ranksim.twin.testing.clock import PartOfWorld, settled_now

Environment = Literal["production", "sandbox"]
Limit = Literal["rate", "capability", "subscription", "cost_ceiling", "quota", "slots", "cooldown"]

MOST = 10_000
"""How many deliveries or attempts are given at most."""


class FaultRules(PartOfWorld):
    """The fault rules of a world: late answers, errors and dropped connections on purpose.

    Whom a rule befalls repeats with the seed. An answer that it befell names it in the header Ranksim-Fault.
    """

    def __repr__(self) -> str:
        rules = ", ".join(f"{rule['id']} of {rule['operation']}" for rule in self.list())
        return f"<Faults: {rules or 'none'}>"

    def add(
        self,
        operation: str = "*",
        *,
        latency: str | Mapping[str, Any] | None = None,
        latency_after: str | Mapping[str, Any] | None = None,
        error_rate: float = 0.0,
        drop_before_rate: float = 0.0,
        drop_after_rate: float = 0.0,
        drop_during_rate: float = 0.0,
        status: int | None = None,
        body: BodyKind | None = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after: str | None = None,
        retry_after_form: RetryAfterForm = "seconds",
        answer_rate: float = 1.0,
        after_effect: bool = False,
        bytes_per_second: int | None = None,
        delivery: Delivery | None = None,
        times: int | None = None,
        lasts: str | None = None,
        path: str | None = None,
        key: str | None = None,
        environment: Environment | None = None,
    ) -> faults.FaultShown:
        """Let requests of an operation ("jobs.create", "jobs.*", "graphql"), a path and a key meet a fault.

        `key` is the name of an API key, or its token.

        `latency` is wall time, such as "3s" or {"exponential": {"mean": "80ms"}}, before the effect, and
        `latency_after` between it and the answer: meanwhile an Idempotency-Key is in flight (U92). The rates
        are shares of requests, from 0 to 1: answered 500 without effect, or dropped before or after the
        effect, or in the middle of the answer's body. A share `answer_rate` is answered `status` instead,
        with `body` ("problem", "html", "cut" or "empty") or `text`, `headers` and `retry_after` ("30s", in
        "seconds" or as a "date"), without effect unless `after_effect`; bodies come at `bytes_per_second`.
        With operation "delivery" it is webhook attempts that are late, or what `delivery` says. A rule ends
        after `times` requests, and after `lasts` on the world's clock. Return it, with its `id`. Raises
        BadInput.
        """
        given = {
            "operation": operation, "key": key, "environment": environment, "latency": latency,
            "latency_after": latency_after, "error_rate": float(error_rate),
            "drop_before_rate": float(drop_before_rate), "drop_after_rate": float(drop_after_rate),
            "drop_during_rate": float(drop_during_rate), "status": status, "body": body, "text": text,
            "headers": dict(headers or {}), "retry_after": retry_after, "retry_after_form": retry_after_form,
            "answer_rate": float(answer_rate), "after_effect": after_effect, "delivery": delivery,
            "bytes_per_second": bytes_per_second, "times": times, "lasts": lasts, "path": path,
        }  # fmt: skip
        rule = validate(FaultRule, Located("fault", given, {}))
        return self._thread.call(faults.add_fault(self._twin, rule))

    def bundle(
        self,
        name: BundleName,
        operation: str = "*",
        *,
        path: str | None = None,
        key: str | None = None,
        lasts: str | None = None,
    ) -> builtins.list[faults.FaultShown]:
        """Put a bundle of faults in force, as production has them, and return its rules. Raises BadInput."""
        given = {"operation": operation, "path": path, "key": key, "lasts": lasts}
        scope = validate(BundleScope, Located(name, given, {}))
        return self._thread.call(faults.add_faults(self._twin, name, scope))["data"]

    def list(self) -> list[faults.FaultShown]:
        """Return the rules in force, with how many requests each has `seen`, and its `effects`."""
        return self._thread.call(faults.list_faults(self._twin))["data"]

    def remove(self, rule: str) -> None:
        """End a rule by its id. Raises BadInput."""
        self._thread.call(faults.remove_fault(self._twin, rule))

    def clear(self) -> None:
        """End all rules."""
        self._thread.call(faults.clear_faults(self._twin))


class LimitSwitches(PartOfWorld):
    """The limits of everybody in a world. One that is off refuses nobody; what it minds is booked as ever."""

    def __repr__(self) -> str:
        return f"<Limits: off: {', '.join(name for name, on in self.shown().items() if not on) or 'none'}>"

    def off(self, *limits: Limit) -> None:
        """Switch limits off, such as "rate" and "cooldown"; all of them if none is named. Raises BadInput."""
        self._switch(limits, False)

    def on(self, *limits: Limit) -> None:
        """Switch limits on; all of them if none is named. Raises BadInput."""
        self._switch(limits, True)

    def shown(self) -> dict[str, bool]:
        """Return which limits are on."""
        return self._thread.call(faults.get_limits(self._twin))

    def _switch(self, limits: tuple[Limit, ...], on: bool) -> None:
        wanted = Located("limits", dict.fromkeys(limits or LIMITS, on), {})
        patch = validate(faults.LimitsPatch, wanted)
        self._thread.call(faults.set_limits(self._twin, patch))


class Deliveries(PartOfWorld):
    """The webhook deliveries of a world, their attempts, and events made by hand."""

    def unfinished(self, endpoint: str = "", event: str = "") -> list[deliveries.DeliveryShown]:
        """Return what is not delivered yet, by the instant of its next attempt (`next_attempt_at`)."""
        return self._thread.call(deliveries.list_deliveries(self._twin, _of(endpoint, event)))["data"]

    def attempts(self, endpoint: str = "", event: str = "") -> list[deliveries.RecordShown]:
        """Return the attempts that were answered, or not in time, newest first."""
        return self._thread.call(deliveries.list_attempts(self._twin, _of(endpoint, event)))["data"]

    def trigger(self, event: str, account: str = "", domain: str = "") -> list[deliveries.DeliveryShown]:
        """Let "job.completed", "job.failed" or "webhook.test" come about, and have it answered.

        The job that it tells of is booked nowhere. Return the deliveries as they began. Raises BadInput.
        """
        body = deliveries.TriggerBody(event=event, account_id=account, domain_id=domain)

        async def triggered() -> list[deliveries.DeliveryShown]:
            begun = await deliveries.trigger(self._twin, body)
            await settled_now(self._twin)
            return begun["data"]

        return self._thread.call(triggered())

    def resend(self, attempt: str) -> deliveries.DeliveryShown:
        """Deliver the event of an attempt, by its `id`, once more, and have it answered. Raises BadInput."""

        async def resent() -> deliveries.DeliveryShown:
            begun = await deliveries.resend(self._twin, attempt)
            await settled_now(self._twin)
            return begun

        return self._thread.call(resent())


def _of(endpoint: str, event: str) -> deliveries.DeliveriesQuery:
    return deliveries.DeliveriesQuery(endpoint_id=endpoint or None, event_id=event or None, limit=MOST)
