"""Formats numbers for people: tokens, money, durations."""

from __future__ import annotations

from agent.usage import Usage

UNKNOWN_COST = "cost unknown"


def short_count(number: int) -> str:
    """A number of tokens in at most five characters: 950, 1.2k, 128k, 1M."""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            value = number / size
            return f"{value:.1f}".removesuffix(".0") + unit if value < 10 else f"{value:.0f}{unit}"
    return str(number)


def money(dollars: float) -> str:
    """Dollars with as many decimals as are significant: $0.0004, $0.012, $1.50."""
    if dollars >= 1 or dollars == 0:
        return f"${dollars:.2f}"
    return f"${dollars:.4f}" if dollars < 0.01 else f"${dollars:.3f}"


def duration(seconds: float) -> str:
    """A number of seconds as 0.4s, 12s, 3m 05s, 2h 10m."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def tokens(usage: Usage) -> str:
    """The input and output tokens, with the cached part of the input."""
    sent = usage.input + usage.cache_read + usage.cache_write
    cached = f" ({short_count(usage.cache_read)} cached)" if usage.cache_read else ""
    return f"{short_count(sent)} in{cached}, {short_count(usage.output)} out"


def cost(usage: Usage) -> str:
    """The cost, `~` before an estimate, or that it is unknown: an unknown price is not zero."""
    if usage.cost.total:
        return ("~" if usage.cost.is_estimate else "") + money(usage.cost.total)
    return UNKNOWN_COST if usage.total_tokens else money(0)
