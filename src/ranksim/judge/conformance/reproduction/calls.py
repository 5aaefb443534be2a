"""Exchanges as calls of a shell script; ids, cursors, names and keys that they have become its variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ranksim.core.clock import SECOND, Micros
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import Header
from ranksim.judge.conformance.exhibits import HIDDEN, UNSENT, VARIABLE
from ranksim.judge.conformance.history.exchange_reader import lowered, route
from ranksim.judge.conformance.reproduction.needed import Provenance
from ranksim.judge.conformance.reproduction.signs import Expression, ReplyRead
from ranksim.judge.deployment.cleanup import MARK


@dataclass
class ScriptCalls:
    """The calls `names` in their order, of which `proof` are made as they were: at once, or `waits` apart."""

    names: Sequence[str]
    proof: Sequence[str]
    origin: Provenance
    header: Header
    waits: bool = False
    _variables: dict[str, str] = field(default_factory=dict)
    """By what it is in the trace: the variable of an id, a cursor or a mark."""

    def __post_init__(self) -> None:
        prefix = self.names[0].removesuffix(self.origin.exchanges[self.names[0]].id)
        for token, (name, _) in self.origin.issuers.items():
            if name in self.names and token.startswith(prefix):
                self._variables[token.removeprefix(prefix)] = f"${{v{len(self._variables) + 1}}}"
        self._tokens = {**self._variables}

    def step(self, name: str) -> str:
        """Return what the script calls an exchange."""
        return f"s{self.names.index(name) + 1}"

    def read(self, name: str) -> ReplyRead:
        """Return the reply of an exchange, as signs look at it."""
        exchange = self.origin.exchanges[name]
        return ReplyRead(self.step(name), name, exchange, self.header.keys.get(exchange.api_key or ""))

    def gaps(self) -> list[Micros]:
        """Return how long after the reply before it each call of the proof was sent, less than 0 at once."""
        return [self._gap(*both) for both in pairwise(name for name in self.names if name in self.proof)]

    def _gap(self, before: str, name: str) -> Micros:
        first, second = self.origin.exchanges[before], self.origin.exchanges[name]
        return second.sent - (first.received or first.sent)

    def settings(self) -> Iterator[str]:
        """Yield lines that say where the deployment is and which keys are wanted."""
        exchanges = [self.origin.exchanges[name] for name in self.names]
        for target in dict.fromkeys(exchange.target for exchange in exchanges):
            base, url = self._base(target), self.header.targets.get(target, "").rstrip("/")
            yield f'test "${{{base}-}}" || {base}={shlex.quote(url)}'
        for key in dict.fromkeys(exchange.api_key for exchange in exchanges):
            if key in self.header.keys:
                yield f': "${{{self._key(key)}:?expected the key of that name}}"'

    def _base(self, target: str) -> str:
        targets = [*self.header.targets]
        return "BASE" if targets[:1] in ([], [target]) else f"BASE_{targets.index(target) + 1}"

    def _key(self, key: str | None) -> str:
        """Return the variable of a key: that of the target file, or one made of its name."""
        about = self.header.keys.get(key or "")
        if about is None:
            return "NO_KEY" if key is None else "UNKNOWN_KEY"
        named = VARIABLE if len(self.header.keys) == 1 else f"{VARIABLE}_{key}"
        return re.sub(r"\W", "_", about.variable or named.upper(), flags=re.ASCII)

    def steps(self) -> Iterator[str]:
        """Yield the calls, with what each issues for later ones."""
        before, group = "", list[str]()
        for name, following in zip(self.names, (*self.names[1:], ""), strict=True):
            gap = self._gap(before, name) if self.waits and {before, name} <= {*self.proof} else 0
            if gap >= SECOND:
                yield f"sleep {gap // SECOND}"
            group.append(name)
            beside = following in self.proof and {*group} <= {*self.proof}
            if beside and all(self._gap(other, following) < 0 for other in group):
                yield f"call {self.step(name)} {self.request(name)} &"
                continue
            yield f"call {self.step(name)} {self.request(name)}" + " &" * (len(group) > 1)
            yield from ["wait"] * (len(group) > 1)
            for done in group:
                yield from self._after(done)
            before, group = name, []

    def request(self, name: str) -> str:
        """Return the key, the method, the URL and the options of a call."""
        exchange = self.origin.exchanges[name]
        words = [self._key(exchange.api_key), self.words(exchange.method), self._url(name)]
        words += ["-G"] if exchange.query else []
        for parameter, value in (exchange.query or {}).items():
            words += ["--data-urlencode", self.words(f"{parameter}={value}")]
        sent = {"content-type": "application/json"} if exchange.body else {}
        for header, value in (sent | lowered(exchange.request_headers)).items():
            if header not in UNSENT | HIDDEN:
                fresh = header == "idempotency-key" and not MARK.search(value)
                words += ["-H", self.words(f"{header}: {value}") + '"-$RUN"' * fresh]
        return " ".join([*words, *(["--data-binary", self.words(exchange.body)] if exchange.body else [])])

    def _url(self, name: str) -> str:
        exchange = self.origin.exchanges[name]
        return f'"${self._base(exchange.target)}"{self.words(exchange.path)}'

    def _after(self, name: str) -> Iterator[str]:
        exchange, step = self.origin.exchanges[name], self.step(name)
        if name not in self.proof and exchange.method == "POST":
            yield f"need {step}"
        operation, _ = route(exchange.method, exchange.path)
        if operation.endswith(".create") and operation.replace(".create", ".delete") in OPERATIONS:
            yield f"made {step} {self._key(exchange.api_key)} {self._url(name)}"
        prefix = name.removesuffix(exchange.id)
        for token, variable in self._tokens.items():
            issuer, place = self.origin.issuers[prefix + token]
            if issuer == name:
                yield f"{variable[2:-1]}=$(text {step} {self.words(place)})"

    def words(self, text: str) -> str:
        """Return a text as words of a shell, with variables for what is another each time."""
        parts = (f'"{variable}"' if variable else shlex.quote(part) for part, variable in self._parts(text))
        return "".join(parts) or "''"

    def evaluated(self, expression: Expression) -> str:
        """Return an expression as a word of a shell."""
        words = (
            self.words(word) if isinstance(word, str) else self.evaluated(word) for word in expression.words
        )
        return f'"$({" ".join(words)})"'

    def _parts(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield a text in parts, each with the variable that stands for it, "" where it stays."""
        tokens = "|".join([*map(re.escape, sorted(self._tokens, key=len, reverse=True)), MARK.pattern])
        at = 0
        for match in re.finditer(rf"(?<!\w)(?:{tokens})(?!\w)", text):
            if at < match.start():
                yield text[at : match.start()], ""
            mark = f"ranksim-${{RUN}}{len(self._variables) - len(self._tokens):x}"
            yield match[0], self._variables.setdefault(match[0], mark)
            at = match.end()
        if at < len(text):
            yield text[at:], ""
