"""The request fields that ask a Gemini model to think: a level, or a budget in tokens."""

from __future__ import annotations

from collections.abc import Mapping

from agent.json_values import JsonObject
from agent.models import Model
from agent.providers.google_generative_ai.compat import Compat, version_of
from agent.providers.history_transform import stated_limit
from agent.stream import StreamOptions
from agent.thinking import budget_for_level, fit_thinking_budget

# Tokens by level, from the ranges that Google documents for each model; -1 lets the model decide.
_BUDGETS: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("2.5-pro", {"off": 128, "minimal": 128, "low": 2048, "medium": 8192, "high": 32768}),
    ("2.5-flash-lite", {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576}),
    ("2.5-flash", {"off": 0, "minimal": 128, "low": 2048, "medium": 8192, "high": 24576}),
)
_DYNAMIC = -1


def generation_limits(model: Model, options: StreamOptions, compat: Compat) -> JsonObject:
    """`maxOutputTokens` and `thinkingConfig`, each only if needed.

    The server counts thoughts as output. So a limit of the caller applies to the answer, and the budget is
    added to it, up to the model's own limit. An empty level is the same as `off`: as little thinking as the
    model allows, and no thoughts in the answer.
    """
    known_limit = stated_limit(model)
    limit = options.max_tokens or known_limit
    level = options.reasoning or "off"
    config: JsonObject = {}
    if model.reasoning and compat.thinking_format == "level":
        config["thinkingLevel"] = thinking_level(model, level)
    elif model.reasoning and compat.thinking_format == "budget":
        budget = thinking_budget(model, level, options.thinking_budgets)
        if budget > 0 and limit:
            limit, budget = fit_thinking_budget(
                limit, known_limit or limit + budget, "high", {"high": budget}
            )
        config["thinkingBudget"] = budget
    if config and level != "off":
        config["includeThoughts"] = True
    body: JsonObject = {"maxOutputTokens": limit} if limit else {}
    return body | ({"thinkingConfig": config} if config else {})


def thinking_level(model: Model, level: str) -> str:
    """The nearest level that the model accepts, by Google's names."""
    version = version_of(model.id)
    match level:
        case "off" | "minimal":
            return "MINIMAL" if _accepts_minimal(model.id, version) else "LOW"
        case "low":
            return "LOW"
        case "medium":
            # The first Pro of the third generation has two levels only.
            return "HIGH" if "-pro" in model.id and version == (3, 0) else "MEDIUM"
        case "xhigh" | "max" if "xhigh" in model.available_thinking_levels:
            return "XHIGH"
        case _:
            return "HIGH"


def _accepts_minimal(id: str, version: tuple[int, int]) -> bool:
    """True for Flash up to 3.6 and every Flash-Lite; the others answer 400."""
    return "flash-lite" in id or ("flash" in id and version < (3, 7))


def thinking_budget(model: Model, level: str, own: Mapping[str, int] | None) -> int:
    """The tokens for thinking at a level: the caller's, else the model's, else -1 (it decides)."""
    level = "high" if level in ("xhigh", "max") else level
    custom = budget_for_level(own, level)
    if custom:
        return custom
    known = next((budgets for name, budgets in _BUDGETS if name in model.id), None)
    if known is None:
        return 0 if level == "off" else _DYNAMIC
    return known.get(level, _DYNAMIC)
