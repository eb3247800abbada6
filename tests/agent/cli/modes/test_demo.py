"""The demo: a real repair from what the tools returned, judged by the project's own tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from support.command import ROOT, environment, run_command, text_chunks
from support.sse_server import SseServer

PROJECT = ROOT / "examples" / "broken_project"
DEMO = [sys.executable, "-m", "agent", "demo"]


def test_the_demo_repairs_the_project_and_exits_by_its_tests() -> None:
    ended = run_command(DEMO)
    assert ended.returncode == 0, ended.stdout
    assert "the model is scripted" in ended.stdout
    assert "--model" in ended.stdout
    assert "+ 3 GRAMS_PER_KILOGRAM = 1000" in ended.stdout
    assert "Repaired: the tests pass." in ended.stdout


def test_the_project_itself_stays_broken() -> None:
    run_command(DEMO)
    assert "GRAMS_PER_KILOGRAM = 100\n" in (PROJECT / "kitchen" / "units.py").read_text()


def _altered(tmp_path: Path, names: dict[str, str]) -> Path:
    """A copy of the project with other words, in files and in their names."""
    copy = tmp_path / "altered"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in sorted(copy.rglob("*.py")):
        text = path.read_text()
        for old, new in names.items():
            text = text.replace(old, new)
        path.write_text(text)
    for path in sorted(copy.rglob("*"), reverse=True):
        renamed = path.name
        for old, new in names.items():
            renamed = renamed.replace(old, new)
        if renamed != path.name:
            path.rename(path.with_name(renamed))
    return copy


@pytest.mark.parametrize(
    "names",
    [
        {"GRAMS_PER_KILOGRAM = 100": "GRAMS_PER_KILOGRAM = 250"},
        {
            "kitchen": "workshop",
            "units": "measures",
            "kilograms_to_grams": "tons_to_kilos",
            "GRAMS_PER_KILOGRAM": "KILOS_PER_TON",
        },
        {
            "GRAMS_PER_KILOGRAM = 100\n": "GRAMS_PER_KILOGRAM = 1000\n",
            "TEASPOONS_PER_TABLESPOON = 3": "TEASPOONS_PER_TABLESPOON = 7",
        },
    ],
    ids=["another value", "other names", "another fault"],
)
def test_an_altered_project_is_repaired_from_what_the_tools_return(
    names: dict[str, str], tmp_path: Path
) -> None:
    ended = run_command([*DEMO, "--project", str(_altered(tmp_path, names))])
    assert ended.returncode == 0, ended.stdout
    assert "Repaired: the tests pass." in ended.stdout


@pytest.mark.parametrize("tools", ["read,edit", "bash,edit", "bash,read", "none"])
def test_without_one_of_its_tools_the_demo_fails(tools: str) -> None:
    ended = run_command([*DEMO, "--tools", tools])
    assert ended.returncode == 1
    assert "Not repaired: the tests still fail." in ended.stdout
    assert "(nothing was changed)" in ended.stdout


def test_the_temporary_folder_is_removed(tmp_path: Path) -> None:
    run_command(DEMO, env=environment(TMPDIR=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_keep_leaves_the_repaired_copy(tmp_path: Path) -> None:
    run_command([*DEMO, "--keep"], env=environment(TMPDIR=str(tmp_path)))
    (kept,) = tmp_path.glob("agent-demo-*/broken_project/kitchen/units.py")
    assert "GRAMS_PER_KILOGRAM = 1000\n" in kept.read_text()


def test_a_key_sends_the_same_task_to_a_real_model(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("I give up."))
    env = environment(OPENAI_API_KEY="k", OPENAI_BASE_URL=sse_server.url)
    ended = run_command(DEMO, env=env)
    assert ended.returncode == 1
    assert "scripted" not in ended.stdout
    assert "A test of this project fails" in sse_server.requests[0].json["messages"][-1]["content"]
