"""Money: an integer of micro-dollars, and text such as 15 USD."""

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

MICRO_USD = 1_000_000
"""Micro-dollars in one dollar."""

_EXACT = Context(prec=28, Emax=27, traps=[Inexact, InvalidOperation, Overflow])
"""Arithmetic that refuses to round, and ends at 28 digits."""


def money(text: str) -> int:
    """Micro-dollars of an amount such as '15 USD' or '0.002 USD'.

    Raises ValueError when the text is no amount or has more than six decimals.
    """
    number, _, unit = text.strip().rpartition(" ")
    try:
        micros = _EXACT.multiply(_EXACT.create_decimal(number.strip().replace("_", "")), Decimal(MICRO_USD))
    except ArithmeticError:
        micros = Decimal("NaN")
    if unit != "USD" or not micros.is_finite():
        raise ValueError(f"write an amount such as '15 USD', found {text!r}")
    if micros != micros.to_integral_value():
        raise ValueError(f"an amount has at most six decimals, found {text!r}")
    return int(micros)


def format_money(micros: int) -> str:
    """The text of an amount in micro-dollars: 15_000_000 is '15 USD', 2_000 is '0.002 USD'."""
    sign = "-" if micros < 0 else ""
    dollars, rest = divmod(abs(micros), MICRO_USD)
    decimals = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{sign}{dollars}{decimals} USD"
