"""How the models behind Google's format differ: found by the version in their id, set one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from agent.models import Model
from agent.providers.compat_flags import overridden

ThinkingFormat = Literal["level", "budget", "none"]
Version = tuple[int, int]

_VERSION = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?(?!\d)")
# Names that follow the newest model of their kind.
_ALIAS = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest\Z")
_NEWEST: Version = (99, 0)


@dataclass(frozen=True, slots=True)
class Compat:
    """What a model understands and insists on.

    `Model.compat` sets any of these by name, in this spelling or in camelCase. `thinking_format`: asked to
    think at a `level` (Gemini 3 and later), within a `budget` of tokens, or not at all.
    `requires_thought_signatures`: calls without the model's signature are refused unless marked.
    `supports_images_in_results`: a function's response may hold images. `requires_tool_call_ids`: calls and
    responses are matched by id. `supports_json_schema`: the answer may be asked for by its schema;
    `..._with_tools`: also while the model has tools. `project` and `location`: of the cloud project
    on Vertex.
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
    """The flags for a model: what its id tells, with `model.compat` over it.

    Raises ConfigurationError for an unknown flag, naming near ones, and for a value a flag can't have.
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
    return overridden(found, model.compat, "google-generative-ai", _CHOICES)


def version_of(id: str) -> Version:
    """The version of a Gemini model, (0, 0) for an id that names none."""
    if _ALIAS.search(id):
        return _NEWEST
    found = _VERSION.search(id)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


# Models of other makers that Google serves in this format.
_FOREIGN = re.compile(r"(?:\A|/)(?:claude-|gpt-oss-)")
_CHOICES: Mapping[str, tuple[str, ...]] = {"thinking_format": get_args(ThinkingFormat)}
