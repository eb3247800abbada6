"""`agent models [PATTERN]`: prints the known models, one per line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agent.cli.display.amounts import short_count
from agent.cli.options import ModelsOptions
from agent.model_list import model_list
from agent.models import Model, known_models
from agent.usage import ModelCost

_HEAD = ("model", "context", "output", "$/M in", "$/M out", "cached", "images", "thinking")


def run_models(options: ModelsOptions) -> int:
    """Print the models whose name contains the pattern; returns 0 when there are any, else 1."""
    pattern = options.pattern.lower()
    found = {name: model for name, model in known_models().items() if pattern in name.lower()}
    if not found:
        print(f"agent: no known model has {options.pattern!r} in its name", file=sys.stderr)
        return 1
    for line in _table([_HEAD, *(model_row(name, found[name]) for name in sorted(found))]):
        print(line)
    _, source, date = model_list()
    print(f"\n{len(found)} models. Prices in US dollars per million tokens, as of {date}, from {source}.")
    print("Other models of open providers (openrouter, ollama, ...) work too, at an unknown price.")
    return 0


def model_row(name: str, model: Model) -> Sequence[str]:
    """The cells of one row."""
    cost = model.cost
    prices = ("unknown",) * 3 if cost is None else (_price(cost.input), _price(cost.output), _cached(cost))
    levels = [level for level in model.available_thinking_levels if level != "off"]
    always = levels and "off" not in model.available_thinking_levels
    return (
        name,
        short_count(model.context_window),
        short_count(model.max_tokens),
        *prices,
        "yes" if model.supports_images else "no",
        " ".join(levels) + (" (always)" if always else "") if levels else "-",
    )


def _price(dollars: float) -> str:
    return f"{dollars:.4f}".rstrip("0").ljust(len(f"{dollars:.2f}"), "0")


def _cached(cost: ModelCost) -> str:
    return _price(cost.cache_read) if cost.cache_read else "-"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows in columns of equal width, numbers aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = range(1, 6)
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
