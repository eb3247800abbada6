"""The data of the model list."""

from __future__ import annotations

import datetime

from agent.model_list import model_list


def test_the_list_names_its_source_and_its_day() -> None:
    found = model_list()
    assert "litellm" in found.source
    assert datetime.date.fromisoformat(found.date) >= datetime.date(2026, 1, 1)


def test_no_model_is_listed_twice() -> None:
    names = [(entry["provider"], entry["id"]) for entry in model_list().entries]
    assert len(names) == len(set(names)) > 50


def test_the_list_is_read_once() -> None:
    assert model_list() is model_list()
