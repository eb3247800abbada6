"""What is detected of a model in Google's format."""

from __future__ import annotations

import pytest

from agent.models import Model
from agent.providers.google_generative_ai.compat import Version, compat_for, version_of


@pytest.mark.parametrize(
    ("id", "version"),
    [
        ("gemini-2.5-pro", (2, 5)),
        ("gemini-3-pro-preview", (3, 0)),
        ("gemini-3.8-flash", (3, 8)),
        ("models/gemini-2.0-flash-001", (2, 0)),
        ("gemini-flash-latest", (99, 0)),
        ("gemini-exp-1206", (0, 0)),
        ("gemini-123", (0, 0)),
        ("gemma-3-27b", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_the_version_is_in_the_id(id: str, version: Version) -> None:
    assert version_of(id) == version


@pytest.mark.parametrize(
    ("id", "thinking", "signatures", "schema", "schema_with_tools", "ids"),
    [
        ("gemini-2.0-flash", "budget", False, False, False, False),
        ("gemini-2.5-pro", "budget", False, True, False, False),
        ("gemini-3.8-flash", "level", True, True, True, False),
        ("claude-opus-4-5", "budget", False, False, False, True),
        ("publishers/x/models/gpt-oss-120b", "budget", False, False, False, True),
    ],
)
def test_the_flags_follow_from_the_version(
    id: str, thinking: str, signatures: bool, schema: bool, schema_with_tools: bool, ids: bool
) -> None:
    compat = compat_for(Model(id, "google-generative-ai", "google"))
    assert compat.thinking_format == thinking
    assert compat.requires_thought_signatures == compat.supports_images_in_results == signatures
    assert compat.supports_json_schema == schema
    assert compat.supports_json_schema_with_tools == schema_with_tools
    assert compat.requires_tool_call_ids == ids


def test_a_flag_of_the_model_is_stronger() -> None:
    model = Model("gemini-3.8-flash", "google-generative-ai", "google", compat={"thinkingFormat": "none"})
    assert compat_for(model).thinking_format == "none"
