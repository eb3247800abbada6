"""`agent demo`: the coding agent repairs a small broken project, and the command checks the result itself."""

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
from typing import Any

from agent.agent import Agent
from agent.cli.exit_codes import DONE, FAILED
from agent.cli.modes.demo_script import next_step
from agent.cli.modes.prompt import run_agent, screen_renderer
from agent.cli.setup.model_choice import choose_name, opened_model
from agent.cli.setup.open_agent import chosen_tools
from agent.cli.setup.system_prompt import build_system_prompt
from agent.errors import ConfigurationError
from agent.limits import Limits
from agent.models import Model
from agent.stream import StreamFn
from agent.testing import ScriptedModel

# -B: a repaired file of the same size, written within the same second, would be taken for its old bytecode.
_TESTS = ("-B", "-m", "unittest", "discover")
_TEST_SECONDS = 60.0
_SCRIPT_TURNS = 20
_SCRIPTED = "scripted"


def run_demo(options: Any) -> int:
    """Repair a copy of the project and run its tests; 0 when they pass, else 1."""
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


def _repair_and_check(options: Any, source: Path, project: Path) -> int:
    command = shlex.join([sys.executable, *_TESTS])
    name = options.model or choose_name(None, os.environ) or _SCRIPTED
    _say(f"A broken project, {source.name}, was copied to {project}.")
    if name == _SCRIPTED:
        _say(
            "No key was found, so the model is scripted: it reads what the tools return and acts on it.\n"
            "A real model gets the same task with --model PROVIDER/ID, or when OPENAI_API_KEY is set."
        )
    else:
        _say(f"The model is {name}.")
    tools = chosen_tools(str(project), options.tools, ())
    with _opened(name, options.base_url, command) as (model, stream_fn):
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
        _say(f"Prompt: {prompt}\n")
        code = run_agent(agent, prompt, screen_renderer(agent))
    if code not in (DONE, FAILED):
        return code
    return _check(source, project, command)


@contextmanager
def _opened(name: str, base_url: str, command: str) -> Iterator[tuple[Model, StreamFn | None]]:
    """The scripted model with its stream function, or a real one, which needs none of its own."""
    if name == _SCRIPTED:
        script = ScriptedModel(*[next_step(command)] * _SCRIPT_TURNS)
        yield script.model, script.stream
        return
    with opened_model(name, base_url, os.environ) as model:
        yield model, None


def _check(source: Path, project: Path, command: str) -> int:
    """Run the tests ourselves, whatever the agent said, and show what it changed."""
    _say(f"\nWhat the agent says is not proof. This command runs the tests itself: {command}")
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
        _say(f"The tests did not end within {_TEST_SECONDS:g} seconds.")
    _say(output.decode("utf-8", "replace").strip())
    _say("\nThe change:")
    _say(_changes(source, project) or "(nothing was changed)")
    _say("\nRepaired: the tests pass." if passed else "\nNot repaired: the tests still fail.")
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
    """The project to repair: part of the installed package, or of the checkout it runs from."""
    installed = Path(__file__).parents[1] / "broken_project"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "examples" / "broken_project"


def _say(text: str) -> None:
    print(text, flush=True)
