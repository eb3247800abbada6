"""The exit code when standard output can't be written."""

from __future__ import annotations

import io
import sys

import pytest

from agent.cli.exit_codes import FAILED, exit_without_reader


@pytest.mark.parametrize(
    ("problem", "reported"),
    [
        (None, ""),
        (BrokenPipeError(), ""),
        (OSError(28, "full"), "agent: the output can't be written: [Errno 28] full\n"),
    ],
)
def test_a_reader_that_left_is_not_reported_and_any_other_problem_is(
    problem: BaseException | None, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # without a descriptor
    monkeypatch.setattr(sys, "stderr", errors)
    assert exit_without_reader(problem) == FAILED
    assert errors.getvalue() == reported
