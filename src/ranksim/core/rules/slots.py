"""Slots: what a change of keywords, lists or scans adds, revives and holds (S23-S27, U61-U65, U94).

A slot is one tuple of a scan: keyword × engine/device × geography. Tuples come in blocks, products of words,
engine/device pairings and geographies, so that they are counted by multiplication and written out one by one
only where holds are made or looked up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


def fold(text: str, folding: str) -> str:
    """Return the form in which keywords are compared: trimmed, case-folded unless "exact" (U65, U103)."""
    trimmed = text.strip()
    return trimmed.casefold() if folding == "casefold" else trimmed


@dataclass(frozen=True, slots=True)
class Block:
    """Tuples of one scan: every word with every engine/device pairing in every geography (S23).

    `owner` begins the identity of a hold: the domain, or the domain and the scan (U94). A word that counts
    twice in its scan stands twice in `words`.
    """

    owner: str
    words: Sequence[str]
    engine_devices: Sequence[str]
    geographies: Sequence[str]

    def size(self) -> int:
        """Count the tuples (S25)."""
        return len(self.words) * len(self.engine_devices) * len(self.geographies)

    def identities(self) -> Iterator[str]:
        """Write out the identity of every tuple: owner|keyword|engine/device|geography (U94)."""
        places = [f"|{pairing}|{place}" for pairing in self.engine_devices for place in self.geographies]
        for word in self.words:
            start = f"{self.owner}|{word}"
            for place in places:
                yield start + place


@dataclass(frozen=True, slots=True)
class Widening:
    """A planned gain: `slots` tuples become active, of which holds already pay for `revived` (U63).

    `tuples` says which holds, by identity, and how many of each. `slots` is net, and may be below zero, where
    the same change frees others (U62).
    """

    slots: int = 0
    tuples: Mapping[str, int] = field(default_factory=dict)

    @property
    def revived(self) -> int:
        """Count the holds that are consumed."""
        return sum(self.tuples.values()) if self.tuples else 0


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A planned loss: the blocks stop being tracked, and are held to the end of the month unless `freed`."""

    blocks: Sequence[Block] = ()
    freed: bool = False

    @property
    def slots(self) -> int:
        """Count the tuples that stop being tracked."""
        return size(self.blocks)


def size(blocks: Iterable[Block]) -> int:
    """Count the tuples of some blocks."""
    return sum(block.size() for block in blocks)


def words_counted(lists: Iterable[Iterable[str]], scan_counts: str) -> list[str]:
    """Return the words of a scan's lists; one that stands in two lists counts once, or twice (U94)."""
    words = [word for words in lists for word in words]
    return list(dict.fromkeys(words)) if scan_counts == "keyword" else words


def difference(minuend: Block, part: Block) -> list[Block]:
    """Return the tuples of `minuend` that are not in `part`, as at most three blocks that do not overlap."""
    words, common_words = _split(minuend.words, part.words)
    pairings, common_pairings = _split(minuend.engine_devices, part.engine_devices)
    places, _ = _split(minuend.geographies, part.geographies)
    blocks = [
        Block(minuend.owner, words, minuend.engine_devices, minuend.geographies),
        Block(minuend.owner, common_words, pairings, minuend.geographies),
        Block(minuend.owner, common_words, common_pairings, places),
    ]
    return [block for block in blocks if block.size()]


def _split(items: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part items into those beyond `others` and those matched there one for one."""
    left = Counter(others)
    beyond: list[str] = []
    common: list[str] = []
    for item in items:
        if left[item] > 0:
            left[item] -= 1
            common.append(item)
        else:
            beyond.append(item)
    return beyond, common


def revived_by(blocks: Iterable[Block], holds: Mapping[str, int]) -> dict[str, int]:
    """Match tuples with holds, one for one: identity to the number of holds that they consume (U63)."""
    taken: dict[str, int] = {}
    if not holds:
        return taken
    for block in blocks:
        for identity in block.identities():
            used = taken.get(identity, 0)
            if used < holds.get(identity, 0):
                taken[identity] = used + 1
    return taken


def consume(holds: dict[str, int], tuples: Mapping[str, int]) -> None:
    """Take holds out, by identity."""
    for identity, count in tuples.items():
        holds[identity] -= count
        if holds[identity] == 0:
            del holds[identity]


def put(holds: dict[str, int], blocks: Iterable[Block]) -> None:
    """Add one hold for every tuple (S26, S27)."""
    for block in blocks:
        for identity in block.identities():
            holds[identity] = holds.get(identity, 0) + 1
