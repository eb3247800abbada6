"""plan: the list replaces the former one, bad calls change nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agent_tools.plan import PlanEntry, plan_tool, valid_priority, valid_status
from agent_tools.tool import Context, Result, Tool


class Board:
    """A sink and publisher that keep what they were given."""

    def __init__(self) -> None:
        self.plans: list[tuple[str, list[PlanEntry], Any]] = []
        self.published: list[tuple[str, list[PlanEntry], Any, str]] = []
        self.tool: Tool[Any] = plan_tool(self.sink, self.publish)

    def sink(self, title: str, entries: list[PlanEntry], metadata: Any) -> None:
        self.plans.append((title, entries, metadata))

    def publish(self, title: str, entries: list[PlanEntry], metadata: Any, tool_call_id: str) -> None:
        self.published.append((title, entries, metadata, tool_call_id))

    def set(self, entries: Any, **more: Any) -> Result:
        return self.tool.execute({"entries": entries, **more}, Context(tool_call_id="call-7"))


def step(content: str, status: str = "pending", priority: str = "medium") -> dict[str, str]:
    return {"content": content, "status": status, "priority": priority}


def test_a_plan_reaches_the_sink_as_it_was_sent() -> None:
    board = Board()
    result = board.set([step("read", "in_progress", "high"), step("write", "pending", "low")], title="Fix")
    assert not result.is_error
    assert "2 entries" in result.text
    assert board.plans == [
        ("Fix", [PlanEntry("read", "in_progress", "high"), PlanEntry("write", "pending", "low")], None)
    ]


def test_the_publisher_gets_the_same_and_the_id_of_the_call() -> None:
    board = Board()
    board.set([step("a")], title="T", metadata={"next_update_in": "3"})
    assert board.published == [("T", [PlanEntry("a")], {"next_update_in": "3"}, "call-7")]


def test_a_plan_needs_no_publisher() -> None:
    got: list[Any] = []
    assert not plan_tool(lambda *given: got.append(given)).run(entries=[step("a")]).is_error
    assert len(got) == 1


def test_an_empty_list_clears_the_plan() -> None:
    board = Board()
    assert "cleared" in board.set([]).text
    assert board.plans == [("", [], None)]
    assert board.published == [("", [], None, "call-7")]


@pytest.mark.parametrize("arguments", [{}, {"title": "x"}, {"entries": None}])
def test_a_missing_list_is_an_error_and_clears_nothing(arguments: dict[str, Any]) -> None:
    board = Board()
    result = board.tool.execute(arguments)
    assert result.is_error
    assert "entries is required" in result.text
    assert "must be an array" in result.text
    assert not board.plans
    assert not board.published


@pytest.mark.parametrize("entries", ["a", '[{"content": "a"}]', 3, {"content": "a"}, True])
def test_entries_that_are_no_array_are_an_error(entries: Any) -> None:
    """N03"""
    board = Board()
    result = board.set(entries)
    assert result.is_error
    assert "must be an array" in result.text
    assert not board.plans
    assert not board.published


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("a step", "entries[1] must be an object"),
        (None, "entries[1] must be an object"),
        ({"status": "pending"}, "entries[1]: content is required"),
        ({"content": ""}, "entries[1]: content is required"),
        ({"content": 5}, "entries[1]: content is required"),
    ],
)
def test_one_bad_entry_rejects_the_whole_call_and_is_named(bad: Any, message: str) -> None:
    """N03"""
    board = Board()
    board.set([step("kept")])
    result = board.set([step("fine"), bad])
    assert result.is_error
    assert message in result.text
    assert [entries for _, entries, _ in board.plans] == [[PlanEntry("kept")]]
    assert len(board.published) == 1


@pytest.mark.parametrize(
    "given", [{}, {"status": "done", "priority": "HIGH"}, {"status": 4, "priority": None}]
)
def test_unknown_states_and_priorities_get_the_defaults(given: dict[str, Any]) -> None:
    """N03"""
    board = Board()
    assert not board.set([{"content": "a", **given}]).is_error
    assert board.plans[0][1] == [PlanEntry("a", "pending", "medium")]


def test_five_hundred_entries_are_all_kept() -> None:
    """N03"""
    board = Board()
    board.set([step(f"step {i}") for i in range(500)])
    assert len(board.plans[0][1]) == 500


def test_a_full_list_always_recovers_a_plan() -> None:
    """N01"""
    board = Board()
    assert not board.set([step("a", "in_progress")]).is_error
    assert not board.set([step("a", "in_progress"), step("b", "in_progress")]).is_error
    assert not board.set([step("a", "completed"), step("b", "in_progress")]).is_error
    assert board.plans[-1][1] == [PlanEntry("a", "completed"), PlanEntry("b", "in_progress")]


def test_blank_and_doubled_entries_are_the_models_own_business() -> None:
    board = Board()
    assert not board.set([step("  "), step("a"), step("a")]).is_error
    assert board.plans[0][1][0].content == "  "


@pytest.mark.parametrize("title", [None, 5, ["x"]])
def test_a_title_that_is_no_string_is_none(title: Any) -> None:
    board = Board()
    assert not board.set([step("a")], title=title).is_error
    assert board.plans[0][0] == ""


@pytest.mark.parametrize("metadata", [None, {}, "x", ["a"], 3])
def test_metadata_that_is_no_object_or_empty_is_none(metadata: Any) -> None:
    board = Board()
    assert not board.set([step("a")], metadata=metadata).is_error
    assert board.plans[0][2] is None


def test_the_first_five_keys_of_metadata_are_kept_in_the_order_sent() -> None:
    board = Board()
    board.set([step("a")], metadata={name: name for name in "hgfedcba"})
    assert list(board.plans[0][2]) == list("hgfed")


def test_metadata_is_cut_at_eighty_characters_not_bytes() -> None:
    board = Board()
    board.set([step("a")], metadata={"progress_metric": "é" * 200})
    assert board.plans[0][2] == {"progress_metric": "é" * 80}


def test_numbers_in_metadata_become_text() -> None:
    board = Board()
    board.set([step("a")], metadata={"a": 3, "b": 2.5, "c": True, "d": ["x"], "e": None})
    assert board.plans[0][2] == {"a": "3", "b": "2.5", "c": "true", "d": "", "e": ""}


def test_sink_and_publisher_cannot_change_each_others_list() -> None:
    seen: list[int] = []

    def publish(title: str, entries: list[PlanEntry], metadata: Any, tool_call_id: str) -> None:
        seen.append(len(entries))

    plan_tool(lambda title, entries, metadata: entries.clear(), publish).run(entries=[step("a")])
    assert seen == [1]


def test_a_sink_that_raises_fails_the_call() -> None:
    def sink(*given: Any) -> None:
        raise OSError("disk full")

    result = plan_tool(sink).run(entries=[step("a")])
    assert result.is_error
    assert "plan failed" in result.text


def test_a_publisher_that_raises_does_not_undo_the_plan(caplog: pytest.LogCaptureFixture) -> None:
    def publish(*given: Any) -> None:
        raise RuntimeError("screen gone")

    got: list[Any] = []
    assert not plan_tool(lambda *given: got.append(given), publish).run(entries=[step("a")]).is_error
    assert len(got) == 1
    assert "publisher" in caplog.text


def test_a_cancelled_call_sets_no_plan() -> None:
    board = Board()
    cancel = threading.Event()
    cancel.set()
    assert board.tool.execute({"entries": [step("a")]}, Context(cancel=cancel)).is_error
    assert board.plans == []


def test_the_schema_tells_a_model_what_to_send() -> None:
    tool = plan_tool(lambda *given: None)
    assert tool.name == "plan"
    entries = tool.parameters["properties"]["entries"]
    assert tool.parameters["required"] == ["entries"]
    assert set(tool.parameters["properties"]) == {"entries", "title", "metadata"}
    assert entries["items"]["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]
    assert entries["items"]["properties"]["priority"]["enum"] == ["high", "medium", "low"]
    assert entries["items"]["required"] == ["content", "status", "priority"]
    assert "next_update_in" in tool.description
    assert "progress_metric" in tool.description


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            valid_status,
            ["pending", "in_progress", "completed"],
            ["", "done", "PENDING", None, 3, ["pending"]],
        ),
        (valid_priority, ["high", "medium", "low"], ["", "urgent", "High", None, 3]),
    ],
)
def test_states_and_priorities_are_known_by_their_exact_names(
    check: Any, good: list[Any], bad: list[Any]
) -> None:
    assert all(check(value) for value in good)
    assert not any(check(value) for value in bad)


def test_a_plan_entry_has_defaults_and_cannot_change() -> None:
    entry = PlanEntry("a")
    assert (entry.status, entry.priority) == ("pending", "medium")
    with pytest.raises(AttributeError):
        entry.status = "completed"  # type: ignore[misc]
