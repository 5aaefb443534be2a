"""The requests that a world inside a test was sent."""

from __future__ import annotations

from typing import Any

from ranksim.core.errors import BadInput
from ranksim.twin.facade.request_journal import Expected, JournalEntry, RequestJournal
from ranksim.twin.testing.clock import PartOfWorld


class Requests(PartOfWorld):
    """The requests that a world was sent, oldest first: the last 10,000, or 64 MiB of them."""

    def __repr__(self) -> str:
        return f"<Requests: {self.count():,} in the journal>"

    def search(self, **expected: Any) -> list[JournalEntry]:
        """Return the requests as expected; the arguments are fields of `request_journal.Expected`."""
        wanted = Expected(**expected)
        return self._thread.run(lambda: self._journal().search(wanted))

    def count(self, **expected: Any) -> int:
        """Count the requests as expected."""
        return len(self.search(**expected))

    def clear(self) -> None:
        """Forget the requests that came so far."""
        self._thread.run(lambda: self._journal().clear())

    def assert_made(self, times: int | None = None, **expected: Any) -> None:
        """Assert that such a request came, or that it came so many times.

        The AssertionError names the requests that came near, and what tells them apart.
        """
        __tracebackhide__ = True
        wanted = Expected(**expected)
        least = 1 if times is None else times
        verdict = self._thread.run(lambda: self._journal().verify(wanted, least, times))
        if not verdict:
            raise AssertionError(verdict.message)

    def _journal(self) -> RequestJournal:
        if self._twin.requests is None:
            raise BadInput("requests: this world keeps no journal")
        return self._twin.requests
