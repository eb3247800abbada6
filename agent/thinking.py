"""Thinking levels: the ladder, the clamp to the levels of a model, and token budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

THINKING_LADDER = ("max", "xhigh", "high", "medium", "low", "minimal", "off")

# Tokens for thinking per level, for models that take a budget instead of an effort. These are the values the
# TypeScript agents settled on; levels above `high` use its budget.
DEFAULT_BUDGETS: Mapping[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}

# What is left for the answer itself when the budget would take all of the output limit.
_ANSWER_FLOOR = 1024


def is_canonical_thinking_level(level: str) -> bool:
    """True for a level of the ladder, written exactly so."""
    return level in THINKING_LADDER


def clamp_thinking_level(requested: str, available: Iterable[str] | None) -> str:
    """The nearest level at or below `requested` that the model offers; `off` when there is none.

    Never goes up. An empty request means "no opinion" and stays empty. A level that is not on the ladder is
    kept when the model lists it. Order and doubles in `available` do not matter.
    """
    if requested == "":
        return ""
    levels = frozenset(available or ())
    if requested not in THINKING_LADDER:
        return requested if requested in levels else "off"
    below = THINKING_LADDER[THINKING_LADDER.index(requested) :]
    return next((level for level in below if level in levels), "off")


def budget_for_level(budgets: Mapping[str, int] | None, level: str) -> int:
    """The caller's own budget for a level in tokens; 0 when it set none, and for levels that take none."""
    if not budgets or level not in DEFAULT_BUDGETS:
        return 0
    return budgets.get(level, 0)


def fit_thinking_budget(
    base_max_tokens: int, model_max_tokens: int, level: str, budgets: Mapping[str, int] | None = None
) -> tuple[int, int]:
    """`(max_tokens, budget)` for a request that thinks at `level` and answers in `base_max_tokens`.

    The budget is added to the answer's share up to the model's limit; when the limit is too small, the
    budget shrinks so that 1024 tokens stay for the answer.
    """
    level = "high" if level in ("xhigh", "max") else level
    budget = budget_for_level(budgets, level) or DEFAULT_BUDGETS.get(level, 0)
    max_tokens = min(base_max_tokens + budget, model_max_tokens)
    if max_tokens <= budget:
        budget = max(0, max_tokens - _ANSWER_FLOOR)
    return max_tokens, budget
