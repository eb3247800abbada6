"""Request bodies held against the types of the official packages, where these are installed."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

# By format: the package, where its types live, and the name of a streaming request's type.
_TYPED = {
    "openai-completions": (
        "openai",
        ("openai.types.shared_params", "openai.types.chat"),
        "openai.types.chat.completion_create_params.CompletionCreateParamsStreaming",
    ),
    "openai-responses": (
        "openai",
        ("openai.types.shared_params", "openai.types.responses"),
        "openai.types.responses.response_create_params.ResponseCreateParamsStreaming",
    ),
    "anthropic-messages": (
        "anthropic",
        ("anthropic.types", "anthropic.types.beta"),
        # Of the beta API, which is the other one with compaction.
        "anthropic.types.beta.message_create_params.MessageCreateParamsStreaming",
    ),
}
PACKAGES = {api: package for api, (package, _, _) in _TYPED.items()} | {
    "google-generative-ai": "google.genai"
}


def is_installed(api: str) -> bool:
    """True when the official package of that format is here."""
    try:
        return importlib.util.find_spec(PACKAGES[api]) is not None
    except ModuleNotFoundError:  # `google`, the parent, is no package here
        return False


def check_body(api: str, body: dict[str, Any]) -> None:
    """Raises pydantic's ValidationError for what the package's types, which know no others, do not have."""
    if api == "google-generative-ai":
        _check_google(body)
        return
    if api == "openai-completions":
        body = body | {"messages": [_without_dialect(message) for message in body["messages"]]}
    _consume(_validator(api).validate_python(body))


# What other servers added to Chat Completions and want back; OpenAI's own package does not know it.
_DIALECT = ("reasoning_content", "reasoning_details")


def _without_dialect(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in _DIALECT}


@cache
def _validator(api: str) -> Any:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import is_typeddict

    _, homes, request = _TYPED[api]
    for home in homes:
        parent = importlib.import_module(home)
        for found in pkgutil.iter_modules(parent.__path__):
            for value in vars(importlib.import_module(f"{home}.{found.name}")).values():
                if is_typeddict(value):  # some have settings of their own, such as a schema's open end
                    own = getattr(value, "__pydantic_config__", {})
                    value.__pydantic_config__ = ConfigDict(extra="forbid") | own
    module, _, name = request.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a type that allows more by its own word
        return TypeAdapter(getattr(importlib.import_module(module), name))


def _consume(value: Any) -> None:
    """Iterables are validated when they are read."""
    if isinstance(value, dict):
        for item in value.values():
            _consume(item)
    elif not isinstance(value, str) and isinstance(value, Iterable):
        for item in value:
            _consume(item)


def _check_google(body: dict[str, Any]) -> None:
    types = importlib.import_module("google.genai.types")
    homes = {
        "systemInstruction": types.Content,
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    for name in body.keys() - {"contents", "tools"}:
        homes[name].model_validate(body[name])
