"""The layers of the packages, what each may import, and what importing them costs."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from support.imports import ROOT, Import, imports_of, public_definitions, sources

PACKAGES = ("agent", "agent_tools")

# The modules or packages that may import a third-party package, and whether only inside functions.
ALLOWED_IMPORTERS = {
    "httpx": (("agent.providers",), False),
    "httpcore": (("agent.providers",), False),
    "rich": (("agent.cli",), False),
    "prompt_toolkit": (("agent.cli.tui",), False),
    "acp": (("agent.cli.modes",), False),
    "mcp": (("agent.mcp", "agent_tools.mcp"), False),
    "PIL": (("agent_tools.images", "agent.providers"), True),
    "regex": (("agent_tools",), False),
}

# The layers of `agent`, top first. A module imports modules of its own layer and of those below it.
LAYERS = {
    "command": ("agent.cli", "agent.__main__"),
    "features": ("agent.local_model", "agent.testing", "agent.subagents", "agent.compat", "agent.catalog"),
    "agent": ("agent.agent",),
    "runtime": ("agent.runtime",),
    "loop": ("agent.loop",),
    "providers": ("agent.providers",),
    "vocabulary": (
        "agent",
    ),  # every other module: messages, events, hooks, tools, models, stream, errors ...
}

# The loop receives files, time, settings, threads and locks from its caller, never from the system.
SYSTEM_MODULES = (
    "os",
    "io",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "concurrent",
)

# `agent/__init__.py` lists every public name for type checkers. Only agent/agent.py imports it, to read
# `agent.default_stream_fn` at call time.
FACADES = ("agent", "agent_tools")

# Modules without a test file of their name: what they hold is tested through the process that runs them.
RUN_AS_SCRIPTS = ("agent.local_model.server",)


def _run_time_imports(package: str) -> list[Import]:
    return [found for found in imports_of(package) if not found.for_types]


def _lines(wrong: list[Import]) -> str:
    return "\n".join(map(str, wrong))


def _is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def _layer(module: str) -> int:
    """The place of a module's layer, 0 at the top."""
    return next(place for place, members in enumerate(LAYERS.values()) if _is_in(module, members))


def _internal_imports() -> list[tuple[Import, str]]:
    """Imports of one module of ours by another, each with the imported module; the facades are left out."""
    modules = {name for package in PACKAGES for name in sources(package)} - set(FACADES)
    found = []
    for package in PACKAGES:
        for each in imports_of(package):
            target = each.target if each.target in modules else each.target.rpartition(".")[0]
            if each.module in modules and target in modules and target != each.module:
                found.append((each, target))
    return found


def test_agent_imports_agent_tools_in_the_command_only() -> None:
    wrong = [
        i for i in imports_of("agent") if i.is_of("agent_tools") and not i.module.startswith("agent.cli")
    ]
    assert not wrong, _lines(wrong)


def test_agent_tools_imports_nothing_of_agent() -> None:
    wrong = [i for i in imports_of("agent_tools") if i.is_of("agent")]
    assert not wrong, _lines(wrong)


@pytest.mark.parametrize("package", ALLOWED_IMPORTERS)
def test_a_dependency_is_imported_by_its_allowed_importers_only(package: str) -> None:
    importers, only_in_functions = ALLOWED_IMPORTERS[package]
    wrong = [
        found
        for found in _run_time_imports("agent") + _run_time_imports("agent_tools")
        if found.is_of(package)
        and not (_is_in(found.module, importers) and (found.in_function or not only_in_functions))
    ]
    assert not wrong, _lines(wrong)


def test_imports_go_downwards() -> None:
    """Imports for type checkers and imports inside functions count as well."""
    wrong = [
        found
        for found, target in _internal_imports()
        if target.startswith("agent.") and _layer(target) < _layer(found.module)
    ]
    assert not wrong, _lines(wrong)


def test_the_loop_and_the_providers_do_not_import_each_other() -> None:
    pair = (("agent.loop",), ("agent.providers",))
    wrong = [
        found
        for found, target in _internal_imports()
        for one, other in (pair, pair[::-1])
        if _is_in(found.module, one) and _is_in(target, other)
    ]
    assert not wrong, _lines(wrong)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type checkers and imports inside functions count as well."""
    sorter = TopologicalSorter[str]()
    for found, target in _internal_imports():
        sorter.add(found.module, target)
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])), pytrace=False)


def test_the_loop_takes_nothing_from_the_system_and_starts_no_thread() -> None:
    wrong = [
        found
        for found in imports_of("agent")
        if _is_in(found.module, ("agent.loop",)) and any(map(found.is_of, SYSTEM_MODULES))
    ]
    assert not wrong, _lines(wrong)


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
    listed_for_type_checkers = {
        i.target.rpartition(".")[2] for i in imports_of(package) if i.module == package and i.for_types
    }
    assert set(names) == listed_for_type_checkers | public_definitions(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_hidden_by_a_submodule(package: str) -> None:
    module = import_module(package)
    submodules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert submodules.isdisjoint(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_test_file_of_its_name(package: str) -> None:
    """At the mirrored path: tests/agent/loop/test_model_call.py tests agent/loop/model_call.py."""
    missing = []
    for module, path in sources(package).items():
        if path.name in ("__init__.py", "__main__.py") or module in RUN_AS_SCRIPTS:
            continue
        tests = Path("tests", *module.split(".")[:-1], f"test_{path.stem.lstrip('_')}.py")
        if not (ROOT / tests).is_file():
            missing.append(str(tests))
    assert missing == []


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
    """A section number of a page outside the repository is of no use to a reader."""
    section = re.compile(r"\b[RCT] \d+\.\d+\b|\b(?:DESIGN|API)(?:\.md)? section \d")
    wrong = [f"{path}: {m[0]}" for path, text in _tracked_texts().items() if (m := section.search(text))]
    assert wrong == []


def test_any_stays_rare() -> None:
    """`Any` only where a value really can be anything: fewer than 1.5 in 100 lines."""
    texts = [path.read_text("utf-8") for package in PACKAGES for path in sources(package).values()]
    found = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
    assert found / sum(text.count("\n") for text in texts) < 0.015
