"""Numbers of the second deployment where everything is scarce, drawn by a seed from tight ranges.

An account has few slots, a ceiling of a few dollars, at most five briefs a week and cooldowns of at most a
minute, some none; some kinds cannot be removed; some jobs are slow, and some fail; a reply takes a third of
a second at most, and its Date header may be a second old. The rest is what another team might have chosen.
"""

import random
from dataclasses import replace

REMOVABLE = ("labels", "competitors", "keyword-lists", "webhooks")
"""What some deployments do not let anybody remove; most that lack a DELETE lack that of domains."""

LATENCIES = ((0.0, 0.02), (0.005, 0.04), (0.02, 0.2), (0.05, 0.35))
"""Seconds that a reply takes at least and at most."""


def tightened(numbers, seed):
    """Numbers that are tight, where these say nothing else; they are drawn by the seed."""
    draw = random.Random(f"tight/{seed}")

    def between(low, high):
        """A whole number, small ones as often as great ones."""
        return round(low * (high / low) ** draw.random())

    def plan(given, briefs, runs, **more):
        cooldowns = {
            name: length and draw.choice((0, between(2, 12), between(10, 60)))
            for name, length in given["cooldown_seconds"].items()
        }
        quotas = dict(given["quotas"], brief_refreshes=(briefs, "week", ("keyword_briefs",)))
        if "rank_checks" in quotas:
            quotas["rank_checks"] = (runs, "month", ("rank_run",))
        return given | {"slot_limit": between(8, 20), "quotas": quotas, "cooldown_seconds": cooldowns} | more

    slow = draw.random() < 0.3
    shortest = between(15, 40) if slow else between(1, 6)
    return replace(
        numbers,
        job_seconds=(shortest, shortest * draw.uniform(1.2, 1.6 if slow else 4.0)),
        failing=draw.uniform(0.05, 0.3),
        undeletable=tuple(
            ["domains"] * (draw.random() < 0.6) + [name for name in REMOVABLE if draw.random() < 0.25]
        ),
        keeps_date=draw.random() < 0.5,
        latency=draw.choice(LATENCIES),
        words=draw.randint(1, 3),
        studio=plan(
            numbers.studio,
            briefs=draw.randint(0, 5),
            runs=between(5, 40),
            dimensions={
                "scans": draw.randint(3, 8),
                "engine_devices": draw.randint(2, 4),
                "geographies": draw.randint(2, 3),
            },
            page_cap=between(50, 400),
            call_cap=between(3, 30),
            ceiling=between(20, 80) * 100_000,
        ),
        corner=plan(numbers.corner, briefs=draw.randint(0, 5), runs=between(3, 30)),
    )
