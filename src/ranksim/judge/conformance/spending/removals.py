"""What calls that free slots can take away: words of lists, scans, and holds to be revived (S26, S27).

Of a keyword, a list, a scan or a domain that the trace made it is known what goes with it; a removal of
anything else may take whatever the trace did not make.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.views import created_by
from ranksim.judge.conformance.history.fields import plainest
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import AccountActivity, SpendWork
from ranksim.judge.conformance.spending.counter_bounds import RunningSums

Json = Any


class Removals:
    """Since when what the trace made may be gone, and what may be held since when."""

    def __init__(self, activity: AccountActivity) -> None:
        self.activity = activity
        self.keywords = keywords_by_id(activity.works)
        self.scans = {work.id: work for work in activity.works if work.spend == "scans" and work.id}
        self.everything = DISTANT_FUTURE
        """When anything may first have been removed."""
        self.lists: dict[str, Micros] = {}
        """When each list may first be gone, with all its words."""
        self.removed_scans: dict[str, Micros] = {}
        """When each scan may first be gone."""
        self.held_everywhere = DISTANT_FUTURE
        self.held_in: dict[str, Micros] = {}
        """When anything of a domain may first be held."""
        self.held_words: dict[tuple[str, str], Micros] = {}
        """When a word of a domain may first be held, for it alone."""
        falls: dict[str, list[tuple[Micros, int]]] = defaultdict(list)
        for exchange in activity.removals:
            self._see(exchange, falls)
        for exchange in activity.patches:
            scan = self.scans.get(exchange.parameters.get("id", ""))
            self._hold(scan.domain if scan is not None and exchange.surface == "rest" else "", exchange.sent)
        self.fewer = {list_id: RunningSums(removals) for list_id, removals in falls.items()}
        """How many words may be gone of each list, by when."""

    def _see(self, exchange: Observation, falls: Mapping[str, list[tuple[Micros, int]]]) -> None:
        name, at = exchange.parameters.get("id", ""), exchange.sent
        over_rest = exchange.surface == "rest"
        if over_rest and exchange.operation == "keywords.delete" and name in self.keywords:
            list_id, word = self.keywords[name]
            domain = domain_of_list(self.activity, list_id)
            falls[list_id].append((at, 1))
            _first(self.held_words, (domain, plainest(word)), at)
            if not domain:
                self._hold("", at)
        elif over_rest and exchange.operation == "scans.delete" and name in self.scans:
            _first(self.removed_scans, name, at)
            self._hold(self.scans[name].domain, at)
        elif over_rest and exchange.operation == "keyword_lists.delete" and name in self.activity.lists:
            _first(self.lists, name, at)
            self._hold(domain_of_list(self.activity, name), at)
        elif over_rest and exchange.operation == "domains.delete" and name:
            for list_id in self.activity.lists:
                if domain_of_list(self.activity, list_id) in (name, ""):
                    _first(self.lists, list_id, at)
            for scan in self.scans.values():
                if scan.domain in (name, ""):
                    _first(self.removed_scans, scan.id, at)
            self._hold(name, at)
        else:
            self.everything = min(self.everything, at)
            self._hold("", at)

    def _hold(self, domain: str, at: Micros) -> None:
        if domain:
            _first(self.held_in, domain, at)
        else:
            self.held_everywhere = min(self.held_everywhere, at)

    def may_hold(self, domain: str, words: Sequence[Json] | None, by: Micros) -> bool:
        """Return whether some of these words of a domain may be held by then; None is any word of it."""
        if self.held_everywhere <= by or self.held_in.get(domain, DISTANT_FUTURE) <= by:
            return True
        if not domain or words is None:
            instants = [at for (where, _), at in self.held_words.items() if domain in ("", where)]
            return min(instants, default=DISTANT_FUTURE) <= by or (not domain and bool(self.held_in))
        return any(self.held_words.get((domain, plainest(str(word))), DISTANT_FUTURE) <= by for word in words)


def keywords_by_id(works: Sequence[SpendWork]) -> dict[str, tuple[str, str]]:
    """Return the list and the word of each keyword that a reply says was created."""
    keywords = dict[str, tuple[str, str]]()
    for work in works:
        if work.spend == "keywords" and isinstance(work.body.get("list_id"), str):
            for item in created_by(work.made) or ():
                if isinstance(item, dict) and isinstance(item.get("keyword"), str):
                    keywords[str(item.get("id"))] = work.body["list_id"], item["keyword"]
    return keywords


def domain_of_list(activity: AccountActivity, list_id: str) -> str:
    """Return the domain of a list that the trace made, "" of any other."""
    made = activity.lists.get(list_id)
    body = made.body if made is not None and isinstance(made.body, dict) else {}
    return str(body.get("domain_id") or "")


def _first(firsts: dict[Any, Micros], name: object, at: Micros) -> None:
    firsts[name] = min(at, firsts.get(name, DISTANT_FUTURE))
