"""What a request cost: tokens counted by kind, and money when the price is known.

Money is kept to a millionth of a millionth of a dollar, which is finer than any price of a token. So sums do
not drift: ten times $0.1 is $1.0 and reaches a limit of $1.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

# Prices have at most six decimals per million tokens, so a token costs a multiple of 1e-12 dollars. Floats
# hold such multiples to the last digit up to a thousand dollars.
_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars by kind of token. `total` is their sum unless another is given."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0

    def __post_init__(self) -> None:
        if not self.total:
            parts = self.input + self.output + self.cache_read + self.cache_write
            object.__setattr__(self, "total", round(parts, _DECIMALS))

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            round(self.input + other.input, _DECIMALS),
            round(self.output + other.output, _DECIMALS),
            round(self.cache_read + other.cache_read, _DECIMALS),
            round(self.cache_write + other.cache_write, _DECIMALS),
            round(self.total + other.total, _DECIMALS),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response, or of many added together.

    `input` excludes cached tokens, `output` includes reasoning tokens; `total_tokens` is what the provider
    reports, or the sum of the four kinds when it is left out.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        if not self.total_tokens:
            total = self.input + self.output + self.cache_read + self.cache_write
            object.__setattr__(self, "total_tokens", total)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.total_tokens + other.total_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class ModelCost:
    """A model's price in US dollars per million tokens."""

    input: float
    output: float
    cache_read: float = 0.0
    cache_write: float = 0.0


ZERO_USAGE = Usage()
_ZERO_COST = Cost()


def priced(usage: Usage, price: ModelCost | None) -> Usage:
    """The usage with its cost worked out; one that brings its own cost, or has no price, stays as it is."""
    if price is None or usage.cost != _ZERO_COST:
        return usage
    million = 1_000_000
    parts = (
        round(price.input * usage.input / million, _DECIMALS),
        round(price.output * usage.output / million, _DECIMALS),
        round(price.cache_read * usage.cache_read / million, _DECIMALS),
        round(price.cache_write * usage.cache_write / million, _DECIMALS),
    )
    return replace(usage, cost=Cost(*parts))
