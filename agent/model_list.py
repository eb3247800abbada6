"""The data of the model list: `models.json`, with the source and the date of its entries.

`scripts/refresh_models.py` makes the file from the table that the package litellm ships.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import NamedTuple

from agent.json_values import JsonObject


class ModelList(NamedTuple):
    """The entries as JSON objects; `source` names the table they come from, `date` its day (ISO 8601)."""

    entries: tuple[JsonObject, ...]
    source: str
    date: str


@functools.cache
def model_list() -> ModelList:
    """The list, read at the first call."""
    document = json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8"))
    return ModelList(tuple(document["models"]), document["source"], document["date"])
