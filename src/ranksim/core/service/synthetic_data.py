"""Synthetic results: what rank runs, crawls, analyses and AI scans are made to have found.

The specification shows no result, so these are plausible inventions; each is a function of the seed, of names
and of the instant of its run, and of nothing else (see `ranksim.core.draws`). Arithmetic is kept to the four
operations, so that every machine finds the same.
"""

from functools import lru_cache
from urllib.parse import quote

from ranksim.core import draws
from ranksim.core.clock import DAY, WEEK, Micros, iso
from ranksim.core.contract.views import AiVisibilityView, BacklinksView, CrawledPageView, FindingView
from ranksim.core.draws import Purpose
from ranksim.core.service.state import Domain

DEPTH = 100
"""The last position that a rank run looks at; beyond it a site is not found."""

FEWEST_PAGES, MOST_PAGES = 30, 50_000

FEATURES = (
    "ai_overview",
    "featured_snippet",
    "images",
    "local_pack",
    "people_also_ask",
    "sitelinks",
    "videos",
)

SECTIONS = ("blog", "products", "guides", "help", "about", "news", "shop", "docs")

FINDINGS = (
    ("high", "content", "Main heading does not name the topic of the page"),
    ("medium", "content", "Text is thinner than that of pages that rank above it"),
    ("low", "content", "Images lack a description"),
    ("high", "indexing", "Page is linked from nowhere within three clicks of the start"),
    ("medium", "indexing", "Canonical address points at a redirect"),
    ("low", "snippet", "Title is cut off in results"),
    ("medium", "snippet", "Description is the same on several pages"),
    ("medium", "speed", "Largest element appears late on phones"),
    ("low", "speed", "Fonts block the first paint"),
    ("low", "links", "Links lead to pages that are gone"),
)
"""Severity, category and title of what an analysis can find."""

MOST_FINDINGS = 25

ASSISTANTS = ("assistant_a", "assistant_b", "assistant_c", "assistant_d")

INDUSTRIES = (
    "Consumer electronics",
    "Education",
    "Fashion",
    "Finance",
    "Food and drink",
    "Health",
    "Home and garden",
    "Software",
    "Sports",
    "Travel",
)

INTEGRATIONS = ("analytics", "search_console")


@lru_cache(maxsize=1 << 14)
def pages_of(seed: int, host: str) -> int:
    """Return the number of pages of the site at a host: heavy-tailed, half of all have fewer than 60."""
    u = draws.uniform(seed, draws.entity(host), 0, Purpose.SIZE)
    return min(MOST_PAGES, int(FEWEST_PAGES / u))


def position(seed: int, host: str, word: str, place: str, since: Micros, at: Micros) -> int | None:
    """Return the position of a site for a folded keyword in a place at an instant; None: not found in depth.

    A bounded random walk, one step a day from `since`: a keyword begins at a level of its own, steps up or
    down or stays, the wider the deeper it began, and turns back at the first position and a little below the
    depth.
    """
    return _position(seed, host, word, place, since // DAY, at // DAY)


@lru_cache(maxsize=1 << 14)  # the pages of the latest run are read again and again
def _position(seed: int, host: str, word: str, place: str, since: int, day: int) -> int | None:
    import numpy as np  # read when somebody looks at positions

    u = draws.uniform(seed, draws.entity(f"{host}|{word}"), 0, Purpose.POSITION)
    who = draws.entity(f"{host}|{word}|{place}")
    level = int((DEPTH + 8) * u * u + 4 * draws.uniform(seed, who, 0, Purpose.SYNTHETIC))
    days = np.arange(since, day, dtype=np.int64)
    steps = (draws.uniforms(seed, who, days, Purpose.POSITION) * 3).astype(np.int64) - 1
    turn = DEPTH + 10
    walked = (level + (1 + level // 20) * int(steps.sum())) % (2 * turn)
    rank = 1 + min(walked, 2 * turn - 1 - walked)
    return rank if rank <= DEPTH else None


def page_url(domain: Domain, word: str) -> str:
    """Return the page of a site that ranks for a keyword."""
    return f"https://{domain.host}{(domain.path or '').rstrip('/')}/{_slug(word)}"


@lru_cache(maxsize=1 << 14)
def _slug(word: str) -> str:
    return quote("-".join(word.split())[:60])


def serp_features(seed: int, word: str, place: str, at: Micros) -> list[str]:
    """Return what a result page shows beside the plain results, week by week."""
    return list(_serp_features(seed, word, place, at // WEEK))


@lru_cache(maxsize=1 << 14)
def _serp_features(seed: int, word: str, place: str, week: int) -> tuple[str, ...]:
    drawn = draws.bits(seed, draws.entity(f"{word}|{place}"), week, Purpose.SYNTHETIC)
    # Two bits a feature: each is shown one week in four.
    return tuple(name for number, name in enumerate(FEATURES) if (drawn >> 2 * number) & 3 == 0)


def crawled_page(seed: int, domain: Domain, which: str, number: int, at: Micros) -> CrawledPageView:
    """Return page `number`, from 1, of a crawl that ended at an instant; `which` is its id."""
    who = draws.entity(f"page|{domain.host}|{number}")
    section = SECTIONS[draws.below(len(SECTIONS), seed, who, 0, Purpose.SYNTHETIC)]
    path = "/" if number == 1 else f"/{section}/page-{number}"
    u = draws.uniform(seed, who, at // DAY + 3, Purpose.SYNTHETIC)
    status = 200 if number == 1 or u > 0.06 else 301 if u > 0.03 else 404
    return {
        "id": which,
        "domain_id": domain.id,
        "url": f"https://{domain.host}{path}",
        "status_code": status,
        "title": f"{domain.label} – {section.capitalize()} {number}" if status == 200 else None,
        "word_count": 80 + draws.below(1_900, seed, who, 1, Purpose.SYNTHETIC) if status == 200 else 0,
        "depth": 0 if number == 1 else 1 + draws.below(5, seed, who, 2, Purpose.SYNTHETIC),
        "indexable": status == 200,
        "crawled_at": iso(at),
    }


def finding_count(seed: int, analysis: str) -> int:
    """Return how many findings an analysis has."""
    return draws.below(MOST_FINDINGS + 1, seed, draws.entity(analysis), 0, Purpose.SYNTHETIC)


def finding(seed: int, domain: Domain, analysis: str, which: str, number: int) -> FindingView:
    """Return finding `number`, from 1, of an analysis; `which` is its id."""
    who = draws.entity(analysis)
    severity, category, title = FINDINGS[draws.below(len(FINDINGS), seed, who, 2 * number, Purpose.SYNTHETIC)]
    page = 1 + draws.below(pages_of(seed, domain.host), seed, who, 2 * number + 1, Purpose.SYNTHETIC)
    url = f"https://{domain.host}/" + ("" if page == 1 else f"page-{page}")
    return {
        "id": which,
        "analysis_id": analysis,
        "severity": severity,
        "category": category,
        "title": title,
        "url": url,
    }


def site_score(seed: int, domain: Domain, at: Micros) -> int:
    """Return the score of a site-optimization analysis, 0 to 100."""
    who = draws.entity(f"site|{domain.host}")
    return int(35 + 50 * _draw(seed, who, 0, 3) + 15 * _wave(seed, who, at, 30 * DAY, 0) + 7)


def visibility(seed: int, domain: Domain, which: str, at: Micros) -> AiVisibilityView:
    """Return the scores of a scan by its id: the share of answers that name the site, in percent."""
    scores = []
    for assistant in ASSISTANTS:
        who = draws.entity(f"ai|{domain.host}|{assistant}")
        level = 5 + 70 * _draw(seed, who, 0, 3) * _draw(seed, who, 1, 3)
        scores.append(int(level + 10 * (_wave(seed, who, at, 30 * DAY, 0) + 0.5)))
    return {
        "id": which,
        "domain_id": domain.id,
        "score": sum(scores) // len(scores),
        "assistants": [{"assistant": a, "score": s} for a, s in zip(ASSISTANTS, scores, strict=True)],
        "created_at": iso(at),
    }


def industries(seed: int, domain: Domain) -> list[str]:
    """Return the industries, two to four, that a site's AI scans ask about."""
    who = draws.entity(f"industry|{domain.host}")
    first = draws.below(len(INDUSTRIES), seed, who, 0, Purpose.SYNTHETIC)
    step = 1 + 2 * draws.below(2, seed, who, 1, Purpose.SYNTHETIC)
    count = 2 + draws.below(3, seed, who, 2, Purpose.SYNTHETIC)
    return [INDUSTRIES[(first + step * number) % len(INDUSTRIES)] for number in range(count)]


def backlinks(seed: int, domain: Domain) -> BacklinksView:
    """Return the summary of the links that lead to a site: the larger the site, the more."""
    who = draws.entity(f"links|{domain.host}")
    referring = 1 + int(pages_of(seed, domain.host) * (1 + 4 * _draw(seed, who, 0, 3)))
    links = referring * (2 + draws.below(9, seed, who, 1, Purpose.SYNTHETIC))
    return {
        "domain_id": domain.id,
        "backlinks": links,
        "referring_domains": referring,
        "followed": links * (60 + draws.below(35, seed, who, 2, Purpose.SYNTHETIC)) // 100,
        "authority": min(99, 4 * referring.bit_length() + draws.below(12, seed, who, 3, Purpose.SYNTHETIC)),
    }


def integration_status(seed: int, domain: Domain, kind: str) -> str:
    """Return whether a domain's integration is connected."""
    u = draws.uniform(seed, draws.entity(f"integration|{domain.id}|{kind}"), 0, Purpose.SYNTHETIC)
    return "connected" if u < 0.7 else "disconnected" if u < 0.95 else "error"


def _draw(seed: int, who: int, index: int, strand: int) -> float:
    """Draw a number in (0, 1) on one of four strands of an entity."""
    return draws.uniform(seed, who, 4 * index + strand, Purpose.SYNTHETIC)


def _wave(seed: int, who: int, at: Micros, period: int, strand: int) -> float:
    """Return a smooth random course of time in (-0.5, 0.5): draws a period apart, and lines between them."""
    number, rest = divmod(at, period)
    before, after = _draw(seed, who, number, strand), _draw(seed, who, number + 1, strand)
    return before + (after - before) * rest / period - 0.5
