"""The models we know by name, with their windows, limits and prices.

The data is `models.json`, made by `scripts/refresh_models.py` from the table that the package litellm ships;
it names its source and date. An unknown price is None, never zero.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.models import Model
from agent.usage import ModelCost


@functools.cache
def known_models() -> Mapping[str, Model]:
    """All of them by `provider/id`. Read once, when first asked for."""
    return {f"{entry['provider']}/{entry['id']}": _model(entry) for entry in _document()["models"]}


def catalogue_source() -> tuple[str, str]:
    """Where the data comes from, and its date."""
    document = _document()
    return document["source"], document["date"]


@functools.cache
def _document() -> Mapping[str, Any]:
    text = Path(__file__).with_name("models.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def _model(entry: Mapping[str, Any]) -> Model:
    levels = tuple(entry["levels"])
    price = entry["price"]
    adaptive = entry.get("adaptive")
    return Model(
        entry["id"],
        entry["api"],
        entry["provider"],
        name=entry["id"],
        reasoning=levels != ("off",),
        input=("text", "image") if entry["image"] else ("text",),
        context_window=entry["context"],
        max_tokens=entry["output"],
        cost=None if price is None else ModelCost(*price),
        thinking_levels=levels,
        compat={"adaptive_thinking": adaptive} if adaptive else None,
    )
