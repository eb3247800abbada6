"""Every example runs as it stands: without a key, without network, and prints what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"


@dataclass(frozen=True)
class Expected:
    """Lines that an example prints, in this order and among others, and the input it gets."""

    lines: tuple[str, ...]
    typed: str = ""


EXPECTED = {
    "approval.py": Expected(("delete(name='a.txt')?", "delete(name='b.txt')?", "left: b.txt"), "y\nn\n"),
    "budget.py": Expected(("2 turns are over", "max_turns: I looked twice", "budget after 2 turns: 0.14")),
    "custom_tool.py": Expected(
        ("count_words failed", "... moby: 3", "count_words returned: 3", "Three words.")
    ),
    "guardrails.py": Expected(
        ("rejected by cards (input)", "[1]", "rejected by medicine (output)", "3 messages")
    ),
    "many_agents.py": Expected(("Is Paris a capital? Yes.", "Is Dakar a capital? Yes.")),
    "pause_resume.py": Expected(("paused: ['transfer']", "approved: transfer", "Ada has her money.")),
    "script_wait_for_idle.py": Expected(("It printed hello.",)),
    "side_query.py": Expected(("title: A tale", "story: Once upon a time", "2 messages")),
    "steering.py": Expected(
        ("before: queued, queued", "waiting: [] []", "after: delivered in turn 2, delivered in turn 3")
    ),
    "subagents.py": Expected(("writer: starts", "researcher inside", "writer: ends", "Cats and dogs", "240")),
    "subscriber_rich.py": Expected(("ls", "note.txt", "That is all there is.")),
    "typed_result.py": Expected(("City: Paris, 2100001 with you; 3 turns",)),
}


def run(name: str, folder: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    keep = ("PATH", "TMPDIR", "SYSTEMROOT", "LANG")  # no key of a provider
    environment = {key: os.environ[key] for key in keep if key in os.environ}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder)}
    command = [sys.executable, "-W", "error", str(FOLDER / name)]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


TESTED_ELSEWHERE = {"rpc_client.py"}


def test_every_example_is_run() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} - TESTED_ELSEWHERE == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_without_a_key(name: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("for the example that lists a folder")
    expected = EXPECTED[name]
    ended = run(name, tmp_path, expected.typed)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    rest = ended.stdout
    for line in expected.lines:
        assert line in rest, f"{line!r} is missing in:\n{ended.stdout}"
        rest = rest.partition(line)[2]


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_says_how_to_use_a_real_model(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert "without a key" in text
    assert "a real model" in text or "real ones" in text


def test_a_paused_run_goes_on_in_another_process_hours_later(tmp_path: Path) -> None:
    kept = tmp_path / "conversation.json"
    for step, printed in (("start", "paused: ['transfer']"), ("resume", "Ada has her money.")):
        command = [sys.executable, str(FOLDER / "pause_resume.py"), step, str(kept)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert printed in ended.stdout
