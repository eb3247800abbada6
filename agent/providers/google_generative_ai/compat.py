"""Compatibility flags of Google's format, detected from the version in the model's id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from agent.models import Model
from agent.providers.compat_flags import with_overrides

ThinkingFormat = Literal["level", "budget", "none"]
Version = tuple[int, int]

_VERSION = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?(?!\d)")
# Names that follow the newest model of their kind.
_ALIAS = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest\Z")
_NEWEST: Version = (99, 0)


@dataclass(frozen=True, slots=True)
class Compat:
    """The features and requirements of a model. `Model.compat` sets any of these by name, also in camelCase.

    - `thinking_format`: the request names a `level` (Gemini 3 and later), a `budget` of tokens, or nothing.
    - `requires_thought_signatures`: calls without the model's signature are refused unless they are marked.
    - `supports_images_in_results`: a function response may contain images.
    - `requires_tool_call_ids`: calls and responses are matched by id.
    - `supports_json_schema`: the request may carry the schema of the answer; `..._with_tools`: also with
      tools.
    - `project` and `location`: those of the cloud project on Vertex.
    """

    thinking_format: ThinkingFormat = "budget"
    requires_thought_signatures: bool = False
    supports_images_in_results: bool = False
    requires_tool_call_ids: bool = False
    supports_json_schema: bool = False
    supports_json_schema_with_tools: bool = False
    project: str = ""
    location: str = ""


def compat_for(model: Model) -> Compat:
    """The flags detected from the model's id, with those of `model.compat` over them.

    Raises ConfigurationError for an unknown flag, naming similar ones, and for a wrong value.
    """
    version = version_of(model.id)
    third = version >= (3, 0)
    found = Compat(
        thinking_format="level" if third else "budget",
        requires_thought_signatures=third,
        supports_images_in_results=third,
        supports_json_schema=version >= (2, 5),
        supports_json_schema_with_tools=third,
        requires_tool_call_ids=bool(_FOREIGN.search(model.id)),
    )
    return with_overrides(found, model.compat, "google-generative-ai", _CHOICES)


def version_of(id: str) -> Version:
    """The version of a Gemini model; (0, 0) for an id without one."""
    if _ALIAS.search(id):
        return _NEWEST
    found = _VERSION.search(id)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


# Models of other vendors that Google serves in this format.
_FOREIGN = re.compile(r"(?:\A|/)(?:claude-|gpt-oss-)")
_CHOICES: Mapping[str, tuple[str, ...]] = {"thinking_format": get_args(ThinkingFormat)}
