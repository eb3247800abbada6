"""Background jobs are followed by id and end with their toolbox."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.running import becomes_true, running

from agent_tools import jobs as jobs_module
from agent_tools.bash import bash_tool
from agent_tools.jobs import JobTable, jobs_tool
from agent_tools.tool import Context, Result, Tool


@pytest.fixture
def table() -> Iterator[JobTable]:
    with JobTable() as table:
        yield table


@pytest.fixture
def bash(table: JobTable, tmp_path: Path) -> Tool[Any]:
    return bash_tool(tmp_path, jobs=table)


@pytest.fixture
def jobs(table: JobTable) -> Tool[Any]:
    return jobs_tool(table)


def start(bash: Tool[Any], command: str) -> str:
    result = bash(command=command, background=True)
    assert not result.is_error
    return str(result.details["job"])


def test_only_a_toolbox_with_jobs_offers_them(bash: Tool[Any], tmp_path: Path) -> None:
    assert "background" in bash.parameters["properties"]
    assert "background" not in bash_tool(tmp_path).parameters["properties"]
    assert bash(command="echo plain").text == "plain\n"


def test_a_job_outlives_its_call_and_is_listed(bash: Tool[Any], jobs: Tool[Any]) -> None:
    assert jobs(action="list").text == "(no jobs)"
    job = start(bash, "sleep 62.01\necho never")
    assert running("sleep 62.01")
    assert jobs().text.startswith(f"{job}  running for 0 s  sleep 62.01 ...")


def test_each_reading_shows_what_is_new(bash: Tool[Any], jobs: Tool[Any], tmp_path: Path) -> None:
    job = start(bash, "echo one; until [ -e go ]; do sleep 0.01; done; echo two; sleep 62.02")
    assert jobs(action="wait", id=job, pattern="one").text.startswith("one\n\n[job-1 running for")
    assert jobs(action="read", id=job).text.startswith("(no new output)\n\n[job-1 running")
    (tmp_path / "go").touch()
    assert jobs(action="wait", id=job, pattern="^two$").text.startswith("two\n\n[job-1 running")


def test_waiting_finds_what_came_before_the_wait(bash: Tool[Any], table: JobTable, jobs: Tool[Any]) -> None:
    job = start(bash, "echo listening on 80; sleep 62.03")
    assert becomes_true(lambda: table.get(job)._capture.total_bytes)
    result = jobs(action="wait", id=job, pattern=r"listening on \d+", timeout=0)
    assert "(the pattern was found)" in result.text


def test_waiting_finds_a_line_that_is_not_ended(bash: Tool[Any], jobs: Tool[Any]) -> None:
    job = start(bash, "printf 'pass'; sleep 0.1; printf 'word: '; sleep 62.04")
    assert "(the pattern was found)" in jobs(action="wait", id=job, pattern="password: $").text


def test_waiting_ends_with_the_job_and_describes_the_ending(bash: Tool[Any], jobs: Tool[Any]) -> None:
    job = start(bash, "echo working; exit 3")
    result = jobs(action="wait", id=job, pattern="never")
    assert result.text == "working\n\n[job-1 exited with code 3 (it ended)]"
    assert result.details == {"job": job, "running": False}


def test_waiting_has_a_limit(bash: Tool[Any], jobs: Tool[Any]) -> None:
    job = start(bash, "sleep 62.05")
    result = jobs(action="wait", id=job, timeout=0.1)
    assert "(nothing of that happened within 0.1 s)" in result.text
    assert not result.is_error


def test_waiting_can_be_cancelled_and_the_job_goes_on(bash: Tool[Any], jobs: Tool[Any]) -> None:
    job = start(bash, "sleep 62.06")
    cancel, results = threading.Event(), list[Result]()
    waiting = threading.Thread(
        target=lambda: results.append(jobs.execute({"action": "wait", "id": job}, Context(cancel=cancel)))
    )
    waiting.start()
    cancel.set()
    waiting.join(5)
    assert results[0].is_error
    assert "abort" in results[0].text
    assert running("sleep 62.06")


def test_a_killed_job_is_gone_with_all_it_started(bash: Tool[Any], jobs: Tool[Any]) -> None:
    job = start(bash, "echo up; sleep 62.07 & sleep 62.07")
    jobs(action="wait", id=job, pattern="up")
    assert jobs(action="kill", id=job).text == "(no new output)\n\n[job-1 was killed by signal 9 (SIGKILL)]"
    assert becomes_true(lambda: not running("sleep 62.07"))
    assert jobs(action="kill", id=job).text.endswith("[job-1 was killed by signal 9 (SIGKILL)]")


def test_long_output_shows_its_end_and_names_the_file(bash: Tool[Any], jobs: Tool[Any]) -> None:
    job = start(bash, "seq 1 30000")
    text = jobs(action="wait", id=job).text
    assert "\n30000\n\n[The beginning was cut. Full output: " in text
    assert len(text) < 60_000
    Path(text.partition("Full output: ")[2].partition("]")[0]).unlink()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"action": "read"}, "id is required for read"),
        ({"action": "read", "id": "job-7"}, "there is no job 'job-7'; jobs: job-1"),
        ({"action": "wait", "id": "job-1", "pattern": "("}, "not a valid regular expression"),
        (
            {"action": "wait", "id": "job-1", "pattern": "(?:ab|cd){300000}"},
            "a count is at most 1000",
        ),  # FT-S7
        ({"action": "wait", "id": "job-1", "pattern": "a{99999999}"}, "a count is at most 1000"),
        ({"action": "wait", "id": "job-1", "pattern": "a|" * 3000}, "at most 4000"),
        ({"action": "dance"}, "'list', 'read', 'wait' or 'kill'"),
    ],
)
def test_an_impossible_request_is_an_error(
    bash: Tool[Any], jobs: Tool[Any], arguments: dict[str, Any], expected: str
) -> None:
    start(bash, "sleep 62.08")
    result = jobs.execute(arguments, Context())
    assert result.is_error
    assert expected in result.text


def test_a_pattern_that_backtracks_without_end_is_stopped(
    bash: Tool[Any], jobs: Tool[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "PATTERN_TIMEOUT", 0.05)
    # In one write: the letters alone would match.
    job = start(bash, f"echo {'a' * 60}!; sleep 62.09")
    result = jobs(action="wait", id=job, pattern="^(a|aa)+$")
    assert (result.text, result.is_error) == ("pattern takes too long to match; make it simpler", True)


def test_a_missing_directory_starts_no_job(bash: Tool[Any], jobs: Tool[Any]) -> None:
    assert "no longer exists" in bash(command="true", background=True, cwd="/nonexistent").text
    assert jobs().text == "(no jobs)"


def test_too_many_jobs_are_refused(bash: Tool[Any], jobs: Tool[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "MAX_RUNNING", 2)
    start(bash, "sleep 62.10")
    job = start(bash, "sleep 62.10")
    refused = bash(command="sleep 62.10", background=True)
    assert refused.is_error
    assert "kill some" in refused.text
    jobs(action="kill", id=job)
    start(bash, "sleep 62.10")


def test_old_ended_jobs_are_forgotten(
    bash: Tool[Any], jobs: Tool[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "MAX_ENDED", 2)
    for _ in range(4):
        jobs(action="wait", id=start(bash, "true"))
    assert [line.partition(" ")[0] for line in jobs().text.splitlines()] == ["job-3", "job-4"]


def test_closing_the_table_ends_all_jobs_and_refuses_new_ones(bash: Tool[Any], table: JobTable) -> None:
    for _ in range(3):
        start(bash, "sleep 62.11 & sleep 62.11")
    table.close()
    table.close()
    assert becomes_true(lambda: not running("sleep 62.11"))
    assert "is closed" in bash(command="true", background=True).text


def test_collecting_the_table_ends_its_jobs(tmp_path: Path) -> None:
    bash = bash_tool(tmp_path, jobs=JobTable())
    bash(command="sleep 62.12", background=True)
    del bash
    gc.collect()
    assert becomes_true(lambda: not running("sleep 62.12"))
