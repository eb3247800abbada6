"""The tree of exceptions: who is whose child, what they carry, and that pickles keep it."""

from __future__ import annotations

import pickle

import pytest

from agent import errors
from agent.errors import AgentError, GuardrailError, RunError, SideQueryError

PARENTS = {
    "ConfigurationError": "AgentError",
    "UnknownModelError": "ConfigurationError",
    "AgentBusyError": "AgentError",
    "NothingToContinueError": "AgentError",
    "RunError": "AgentError",
    "SideQueryError": "AgentError",
    "ToolError": "AgentError",
    "PendingToolCallsError": "AgentError",
    "ToolCallNotPendingError": "AgentError",
    "InvalidToolResolutionError": "AgentError",
    "SubagentPausedError": "AgentError",
    "GuardrailError": "AgentError",
    "SessionCorruptError": "AgentError",
    "SessionLockedError": "AgentError",
    "BudgetError": "AgentError",
}


@pytest.mark.parametrize(("name", "parent"), PARENTS.items())
def test_every_error_has_its_place_in_the_tree_and_in_the_drawing_of_it(name: str, parent: str) -> None:
    kind = getattr(errors, name)
    assert kind.__bases__ == (getattr(errors, parent),)
    assert str(kind("what went wrong")) == "what went wrong"
    assert f"── {name}" in (errors.__doc__ or "")


def test_no_error_is_missing_from_the_tree() -> None:
    made = {
        name for name, item in vars(errors).items() if isinstance(item, type) and issubclass(item, Exception)
    }
    assert made == {*PARENTS, "AgentError"}


@pytest.mark.parametrize(
    ("error", "carried"),
    [
        (RunError("boom", {"stop": "error"}), {"partial_result": {"stop": "error"}}),
        (RunError("boom"), {"partial_result": None}),
        (SideQueryError("boom", "message", ("block",)), {"message": "message", "blocks": ("block",)}),
        (GuardrailError("boom", "input", "no secrets"), {"phase": "input", "name": "no secrets"}),
    ],
)
def test_an_error_carries_its_parts_through_a_pickle(error: AgentError, carried: dict[str, object]) -> None:
    for twin in (error, pickle.loads(pickle.dumps(error))):
        assert str(twin) == "boom"
        assert {name: getattr(twin, name) for name in carried} == carried
