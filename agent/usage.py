"""What a request cost: tokens counted by kind, and money when the price is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars by kind of token. `total` is their sum."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        parts = (
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )
        return Cost(*parts, total=self.total + other.total)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response, or of many added together.

    `input` excludes cached tokens, `output` includes reasoning tokens; `total_tokens` is what the provider
    reports, or the sum of the four kinds.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = field(default_factory=Cost)

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
        price.input * usage.input / million,
        price.output * usage.output / million,
        price.cache_read * usage.cache_read / million,
        price.cache_write * usage.cache_write / million,
    )
    return replace(usage, cost=Cost(*parts, total=sum(parts)))
