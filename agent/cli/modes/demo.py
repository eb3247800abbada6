"""`agent demo`: the agent repairs a small broken project, and the command verifies the result itself."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.agent import Agent
from agent.cli.exit_codes import DONE, FAILED
from agent.cli.modes.demo_script import next_step
from agent.cli.modes.prompt import run_agent, screen_renderer
from agent.cli.options import DemoOptions
from agent.cli.setup.model_choice import choose_name, open_model
from agent.cli.setup.open_agent import choose_tools
from agent.cli.setup.system_prompt import build_system_prompt
from agent.errors import ConfigurationError
from agent.limits import Limits
from agent.models import Model
from agent.stream import StreamFn
from agent.testing import ScriptedModel

# -B: the bytecode of a file is reused when a repair within the same second keeps the file's size.
_TESTS = ("-B", "-m", "unittest", "discover")
_TEST_SECONDS = 60.0
_SCRIPT_TURNS = 20
_SCRIPTED = "scripted"


def run_demo(options: DemoOptions) -> int:
    """Repair a copy of the project and run its tests; returns 0 when they pass, else 1."""
    source = Path(options.project) if options.project else _broken_project()
    if not source.is_dir():
        raise ConfigurationError(f"--project: {source} is not a folder")
    work = Path(tempfile.mkdtemp(prefix="agent-demo-"))
    project = work / source.name
    try:
        shutil.copytree(source, project, ignore=shutil.ignore_patterns("__pycache__", ".git"))
        return _repair_and_check(options, source, project)
    finally:
        if options.keep:
            print(f"The repaired copy is in {project}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def _repair_and_check(options: DemoOptions, source: Path, project: Path) -> int:
    command = shlex.join([sys.executable, *_TESTS])
    name = options.model or choose_name(None, os.environ) or _SCRIPTED
    _print(f"A broken project, {source.name}, was copied to {project}.")
    if name == _SCRIPTED:
        _print(
            "No key was found, so the model is scripted: it reads what the tools return and acts on it.\n"
            "A real model gets the same task with --model PROVIDER/ID, or when a provider's key is set."
        )
    else:
        _print(f"The model is {name}.")
    tools = choose_tools(str(project), options.tools)
    with _open(name, options.base_url, command) as (model, stream_fn):
        agent = Agent(
            model,
            system_prompt=build_system_prompt(str(project), [tool.name for tool in tools]),
            thinking_level=options.thinking,
            tools=tools,
            stream_fn=stream_fn,
            limits=Limits(max_turns=options.max_turns),
        )
        prompt = (
            f"A test of this project fails. Find out why and repair the code. Run the tests with:\n{command}"
        )
        _print(f"Prompt: {prompt}\n")
        code = run_agent(agent, prompt, screen_renderer(agent, str(project)))
    if code not in (DONE, FAILED):
        return code
    return _check(source, project, command)


@contextmanager
def _open(name: str, base_url: str, command: str) -> Iterator[tuple[Model, StreamFn | None]]:
    """The scripted model with its stream function, or a real model, which needs none."""
    if name == _SCRIPTED:
        script = ScriptedModel(*[next_step(command)] * _SCRIPT_TURNS)
        yield script.model, script.stream
        return
    with open_model(name, base_url, os.environ) as model:
        yield model, None


def _check(source: Path, project: Path, command: str) -> int:
    """Run the tests, whatever the agent reported, and show what it changed."""
    _print(f"\nThe agent's report is no proof. This command runs the tests itself: {command}")
    try:
        tests = subprocess.run(
            [sys.executable, *_TESTS],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TEST_SECONDS,
            check=False,
        )
        output, passed = tests.stdout, tests.returncode == 0
    except subprocess.TimeoutExpired as error:
        output, passed = error.stdout or b"", False
        _print(f"The tests did not finish within {_TEST_SECONDS:g} seconds.")
    _print(output.decode("utf-8", "replace").strip())
    _print("\nThe change:")
    _print(_changes(source, project) or "(nothing was changed)")
    _print("\nRepaired: the tests pass." if passed else "\nNot repaired: the tests still fail.")
    return DONE if passed else FAILED


def _changes(source: Path, project: Path) -> str:
    from agent_tools.diff import generate_diff

    parts = []
    for path in sorted(project.rglob("*")):
        relative = path.relative_to(project)
        if not path.is_file() or "__pycache__" in relative.parts:
            continue
        before = source / relative
        old = before.read_text("utf-8", "replace") if before.is_file() else ""
        diff = generate_diff(old, path.read_text("utf-8", "replace"))
        if diff.text:
            parts.append(f"{relative}\n{diff.text}")
    return "\n".join(parts)


def _broken_project() -> Path:
    """The project to repair: in the installed package, or in the checkout that runs."""
    installed = Path(__file__).parents[1] / "broken_project"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "examples" / "broken_project"


def _print(text: str) -> None:
    print(text, flush=True)
