"""The direction of dependence, and what the two packages promise about being imported."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.imports import ROOT, Import, imports_of, public_definitions, sources

PACKAGES = ("agent", "agent_tools")

# What a third-party package may be imported by (a module or a package), and whether only inside functions.
HOMES = {
    "httpx": ("agent.providers", False),
    "httpcore": ("agent.providers", False),
    "rich": ("agent.cli", False),
    "prompt_toolkit": ("agent.cli.tui", False),
    "PIL": ("agent_tools.images", True),
    "regex": ("agent_tools", False),
}

# Each knows those after it, none of those before it.
STOREYS = ("agent.cli", "agent.agent", "agent.loop", "agent.loop.tool_call", "agent.tools")

# The loop takes files, time and settings from its caller, never from the machine.
THE_MACHINE = ("os", "io", "pathlib", "shutil", "socket", "subprocess", "tempfile")


def _imports(package: str) -> list[Import]:
    return [found for found in imports_of(package) if not found.for_types]


def _told(wrong: list[Import]) -> str:
    return "\n".join(map(str, wrong))


def test_agent_knows_nothing_of_agent_tools_outside_the_command() -> None:
    wrong = [
        i for i in imports_of("agent") if i.is_of("agent_tools") and not i.module.startswith("agent.cli")
    ]
    assert not wrong, _told(wrong)


def test_agent_tools_knows_nothing_of_agent() -> None:
    wrong = [i for i in imports_of("agent_tools") if i.is_of("agent")]
    assert not wrong, _told(wrong)


@pytest.mark.parametrize("package", HOMES)
def test_a_dependency_is_imported_in_its_room_only(package: str) -> None:
    home, only_in_functions = HOMES[package]
    wrong = [
        found
        for found in _imports("agent") + _imports("agent_tools")
        if found.is_of(package)
        and not (f"{found.module}.".startswith(f"{home}.") and (found.in_function or not only_in_functions))
    ]
    assert not wrong, _told(wrong)


def test_a_lower_storey_knows_no_higher_one() -> None:
    wrong = [
        found
        for found in _imports("agent")
        for place, storey in enumerate(STOREYS)
        if f"{found.module}.".startswith(f"{storey}.")
        for higher in STOREYS[:place]
        if found.is_of(higher)
    ]
    assert not wrong, _told(wrong)


@pytest.mark.parametrize("room", ["agent.loop.run", "agent.loop.tool_call", "agent.tools"])
def test_the_loop_knows_no_sessions_no_provider_and_no_command(room: str) -> None:
    closed = ("agent.sessions", "agent.providers", "agent.cli", "agent.local_model")
    wrong = [i for i in _imports("agent") if i.module == room and any(map(i.is_of, closed))]
    assert not wrong, _told(wrong)


def test_providers_know_no_loop_and_no_agent() -> None:
    wrong = [
        i
        for i in _imports("agent")
        if f"{i.module}.".startswith("agent.providers.") and any(map(i.is_of, STOREYS))
    ]
    assert not wrong, _told(wrong)


def test_the_loop_reads_nothing_from_the_machine() -> None:
    wrong = [i for i in imports_of("agent") if i.module == "agent.loop" and any(map(i.is_of, THE_MACHINE))]
    assert not wrong, _told(wrong)


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Before Python 3.11.5 such a pattern matches too little; an atomic group does the same, rightly."""
    possessive = re.compile(r"\)[*+?]\+")
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in PACKAGES
        for path in sources(package).values()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if possessive.search(line) and not line.lstrip().startswith("#")
    ]
    assert wrong == []


# Run in a fresh interpreter: what does an import load, start, print and touch?
_PROBE = """
import json, os, sys
touched, roots = [], [os.path.abspath(p) for p in [*sys.path, sys.base_prefix, sys.prefix] if p]
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2] or 0
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or not any(path.startswith(root) for root in roots):
            touched.append(path)
    elif event in ("os.mkdir", "os.rename", "os.remove", "socket.connect", "subprocess.Popen"):
        touched.append(event)
sys.addaudithook(watch)
before = set(sys.modules)
exec(sys.argv[1])
import threading
print(json.dumps({"modules": sorted(set(sys.modules) - before), "touched": touched,
                  "threads": [t.name for t in threading.enumerate()]}))
"""
PUBLIC_IMPORTS = (
    "import agent",
    "from agent import Agent, tool, ToolSet, Model",
    "from agent_tools import coding_tools",
)


@pytest.fixture(params=PUBLIC_IMPORTS)
def imported(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    command = [sys.executable, "-B", "-W", "error", "-c", _PROBE, request.param]
    child = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stderr == ""
    (line,) = child.stdout.splitlines()
    report: dict[str, list[str]] = json.loads(line)
    return report


def test_importing_loads_little_and_starts_touches_and_prints_nothing(imported: dict[str, list[str]]) -> None:
    assert len(imported["modules"]) < 150
    assert imported["touched"] == []
    assert imported["threads"] == ["MainThread"]


def test_importing_loads_no_heavy_dependency(imported: dict[str, list[str]]) -> None:
    heavy = {"httpx", "rich", "PIL", "pydantic", "prompt_toolkit", "asyncio", "regex"}
    assert heavy.isdisjoint(imported["modules"])


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package: str) -> None:
    module = import_module(package)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_list_of_public_names_is_complete_and_without_repeats(package: str) -> None:
    module = import_module(package)
    names = list(module.__all__)
    assert len(names) == len(set(names))
    told_to_type_checkers = {
        i.target.rpartition(".")[2] for i in imports_of(package) if i.module == package and i.for_types
    }
    assert set(names) == told_to_type_checkers | public_definitions(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_hidden_by_a_submodule(package: str) -> None:
    module = import_module(package)
    submodules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert submodules.isdisjoint(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_types_are_shipped(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def _tracked_texts() -> dict[Path, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    texts = {}
    for name in filter(None, listed.stdout.split("\0")):
        try:
            texts[Path(name)] = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue  # no text, a link to nowhere, or deleted and not yet committed
    return texts


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    home = str(Path.home())
    places = [f"/{place}/" for place in ("root", "work/main", "work/shared", "tmp/scratch", "tmp/cases")]
    if len(Path(home).parts) > 2:  # "/" or "/root" is no name of a person
        places.append(f"{home}/")
    wrong = [
        f"{path}: {place}"
        for path, text in _tracked_texts().items()
        for place in places
        if place in text and path.name != Path(__file__).name
    ]
    assert wrong == []


def test_no_file_refers_to_a_page_that_is_not_here() -> None:
    """Section numbers of design papers outside the repository tell a reader nothing."""
    section = re.compile(r"\b[RCT] \d+\.\d+\b|\b(?:DESIGN|API)(?:\.md)? section \d")
    wrong = [f"{path}: {m[0]}" for path, text in _tracked_texts().items() if (m := section.search(text))]
    assert wrong == []
