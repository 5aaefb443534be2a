"""Cells that are known to miss what is nominal, by row and column, and why."""

from tests.coverage import cells, designs

TAIL = (
    "five or ten values that are skewed to the right seldom show their tail, and the interval ends too low; "
    "thirty do"
)
BIASED = (
    "what the cut leaves is biased by the empty start, and the narrower the interval, the surer it misses"
)
EXACT = "few events: the interval is exact for a number that is whole, and so covers more than it says"
WIDER = "the wider of two intervals is given, which of few values covers more than it says"
PAIRS = "pairs that are much skewed show their variances slowly: the interval is too narrow (`gains`)"
BURSTS = "five replications show too few bursts to tell how much they scatter"
DISCRETE = "order statistics have few ends to choose from, or none: the interval covers more than it says"

EACH = ("5", "10", "30", "100")

MISSES: dict[tuple[str, str], dict[str, str]] = {
    (cells.MEANS, "lognormal, deviation 1"): {"5": TAIL},
    (cells.WAITS, "M/M/1, load 0.8"): {"5": TAIL, "10": TAIL},
    (cells.WAITS, "M/M/4, load 0.8"): {"10": TAIL},
    (cells.WAITS, "M/G/1 (lognormal), load 0.7"): {"5": TAIL, "10": TAIL},
    (cells.SHARES, "0.001 of 100 calls"): dict.fromkeys(EACH, EXACT),
    (cells.SHARES, "0.05 of 100 calls"): {"10": WIDER},
    (cells.SHARES, "0.999 of 100 calls"): dict.fromkeys(EACH, EXACT),
    (cells.SHARES, "0.05 of 100 calls, correlated by 0.02"): {"5": WIDER},
    (cells.SHARES, "0.05 of 100 calls, correlated by 0.2"): {"5": TAIL},
    (cells.SHARES, "chance of 0.001"): dict.fromkeys(EACH, EXACT),
    (cells.SHARES, "chance of 0.05"): dict.fromkeys(EACH, EXACT),
    (cells.SHARES, "chance of 0.5"): {"5": EXACT, "10": EXACT},
    (cells.COUNTS, "0.026 in a run"): dict.fromkeys(EACH, EXACT),
    (cells.COUNTS, "0.2 in a run"): {"5": EXACT, "10": EXACT, "30": EXACT},
    (cells.COUNTS, "1 in a run"): {"5": EXACT, "10": EXACT},
    (cells.COUNTS, "10 in a run"): {"5": WIDER, "10": WIDER},
    (cells.COUNTS, "0.3 in a run, three together"): {"5": EXACT, "10": EXACT, "100": WIDER},
    (cells.COUNTS, "1 in a run, three together"): {"5": BURSTS, "30": WIDER},
    (cells.DIFFERENCES, "counts: 5 of both, 0.2 more"): dict.fromkeys(EACH, EXACT),
    (cells.DIFFERENCES, "shares: 5 % of both, a point more"): {"5": EXACT},
    (cells.GAINS, "normal, correlation 0.9"): {"5": WIDER},
    (cells.GAINS, "lognormal, correlation 0.85"): {"30": PAIRS, "100": PAIRS},
    (cells.GAINS, "mean waits, service a tenth faster"): dict.fromkeys(EACH, PAIRS),
    (cells.QUANTILES, "0.5 of exponential values"): {"5": DISCRETE},
    (cells.QUANTILES, "0.95 of exponential values"): dict.fromkeys(EACH, DISCRETE),
    (designs.WARM_UP, "none"): {"10": TAIL, "30": BIASED, "100": BIASED},
    (designs.WARM_UP, "MSER-5 of the mean of 10 pilots"): {"30": BIASED, "100": BIASED},
    (designs.WARM_UP, "Welch, 10 pilots"): {"10": TAIL},
    (designs.PRECISION, "the same of whole runs from empty"): dict.fromkeys(("±10%", "±20%", "±30%"), BIASED),
    (designs.PRECISION, "the same after MSER-5 of 10 pilots"): {"±10%": BIASED},
}
