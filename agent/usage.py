"""Tokens of a response by kind, and what they cost when the price is known.

Money is kept to a millionth of a millionth of a dollar, which is finer than the price of any token. So sums
do not drift: ten times $0.1 is $1.0 and reaches a limit of $1.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

# Prices have at most six decimals per million tokens, so a token costs a multiple of 1e-12 dollars. Floats
# hold such multiples exactly to the last digit up to a thousand dollars.
_DECIMALS = 12

# What Anthropic and OpenAI charge for a thousand searches of their own, whatever the model.
WEB_SEARCH_PRICE = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars by kind of token, and for the searches that the provider ran (`server_tools`).

    `total` is their sum unless another is given. `is_estimate`: a price was unknown and another stood in.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0
    server_tools: float = 0.0
    is_estimate: bool = False

    def __post_init__(self) -> None:
        if not self.total:
            parts = self.input + self.output + self.cache_read + self.cache_write + self.server_tools
            object.__setattr__(self, "total", round(parts, _DECIMALS))

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            round(self.input + other.input, _DECIMALS),
            round(self.output + other.output, _DECIMALS),
            round(self.cache_read + other.cache_read, _DECIMALS),
            round(self.cache_write + other.cache_write, _DECIMALS),
            round(self.total + other.total, _DECIMALS),
            round(self.server_tools + other.server_tools, _DECIMALS),
            self.is_estimate or other.is_estimate,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one response, or of many added together.

    `input` excludes cached tokens; `output` includes `reasoning`, and `cache_write` includes
    `cache_write_1h`, what is kept for an hour instead of five minutes. `total_tokens` is what the provider
    reports, or the sum of input, output, cache_read and cache_write. `web_searches` counts the searches that
    the provider ran.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = field(default_factory=Cost)
    reasoning: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0

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
            self.reasoning + other.reasoning,
            self.cache_write_1h + other.cache_write_1h,
            self.web_searches + other.web_searches,
        )


@dataclass(frozen=True, slots=True)
class ModelCost:
    """A model's price in US dollars per million tokens.

    `cache_read` and `cache_write` of None are unknown: the input price stands in, and costs that contain it
    are marked (`Cost.is_estimate`); 0 is free. `cache_write_1h` of None is twice the input price.

    `tiers` are the prices of long prompts: pairs of a number of tokens and the `ModelCost` of a request whose
    prompt, cached tokens included, is longer than that.

    `web_search` is the price of a thousand searches that the provider runs; None: $10, or nothing for a model
    that is free.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    web_search: float | None = None
    tiers: tuple[tuple[int, ModelCost], ...] = ()

    def of(self, usage: Usage) -> Cost:
        """What the tokens cost."""
        price = self._at(usage.input + usage.cache_read + usage.cache_write)
        read, write = price.cache_read, price.cache_write
        hour = min(usage.cache_write_1h, usage.cache_write)
        short = usage.cache_write - hour
        guessed = (read is None and usage.cache_read) or (write is None and short)
        read = price.input if read is None else read
        write = price.input if write is None else write
        hour_price = 2 * price.input if price.cache_write_1h is None else price.cache_write_1h
        return Cost(
            _dollars(price.input * usage.input),
            _dollars(price.output * usage.output),
            _dollars(read * usage.cache_read),
            _dollars(write * short + hour_price * hour),
            server_tools=round(self._search_price * usage.web_searches / 1000, _DECIMALS),
            is_estimate=bool(guessed and price.input),
        )

    def times(self, factor: float) -> ModelCost:
        """The price with each token at `factor` times its price. Searches cost the same."""
        return ModelCost(
            self.input * factor,
            self.output * factor,
            _times(self.cache_read, factor),
            _times(self.cache_write, factor),
            _times(self.cache_write_1h, factor),
            self.web_search,
            tuple((above, tier.times(factor)) for above, tier in self.tiers),
        )

    @property
    def _search_price(self) -> float:
        if self.web_search is not None:
            return self.web_search
        return WEB_SEARCH_PRICE if self.input or self.output else 0.0

    def _at(self, prompt_tokens: int) -> ModelCost:
        """The price of a request with a prompt of that length."""
        reached = [(above, tier) for above, tier in self.tiers if prompt_tokens > above]
        return max(reached, key=lambda pair: pair[0])[1] if reached else self


ZERO_USAGE = Usage()
_ZERO_COST = Cost()


def priced(usage: Usage, price: ModelCost | None) -> Usage:
    """The usage with its cost. One that has a cost, or whose price is unknown, stays as it is."""
    if price is None or usage.cost != _ZERO_COST:
        return usage
    return replace(usage, cost=price.of(usage))


def _times(price: float | None, factor: float) -> float | None:
    return None if price is None else price * factor


def _dollars(price_times_tokens: float) -> float:
    return round(price_times_tokens / 1_000_000, _DECIMALS)
