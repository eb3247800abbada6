"""The bash tool: runs a command and returns the end of its output and how it ended."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from agent_tools.files.filesystem import FILESYSTEM, ConfinedFilesystem, Filesystem
from agent_tools.files.paths import resolve
from agent_tools.files.protected import PROTECTED
from agent_tools.process.capture import Capture, Captured
from agent_tools.process.environment import command_environment, filtered_environment
from agent_tools.process.runner import Command, Ending, encode
from agent_tools.process.sandbox import LOGS, TMP, Bubblewrap
from agent_tools.tool import Arguments, CallContext, DisplayHint, Result, TitleArg, Tool, ToolFailure
from agent_tools.truncate import MAX_BYTES, MAX_LINES, cut_line, format_size

if TYPE_CHECKING:
    from agent_tools.jobs import JobTable

DEFAULT_TIMEOUT = 120.0
# Seconds between updates and bytes of each: a display shows a few lines, ten times a second at most.
UPDATE_INTERVAL = 0.1
UPDATE_BYTES = 4096
# Linux accepts 128 KiB per argument; when a shorter command is too long, the environment is the cause.
_LONG_COMMAND = 100_000


class BashArguments(Arguments):
    command: str = Field(description="Bash command to run; several lines and scripts are fine")
    timeout: float | None = Field(
        None, allow_inf_nan=False, description="Seconds until the command is killed, fractions allowed"
    )
    cwd: str | None = Field(None, description="Directory to run in instead of the working directory")
    if_hash: str | None = Field(
        None, description="Hash of the output you already have; the same output is not sent again"
    )


class BackgroundBashArguments(BashArguments):
    background: bool = Field(
        False, description="Start it and return a job id at once; no timeout applies. See the jobs tool"
    )


def _description(timeout: float, background: bool, sandbox: Bubblewrap | None) -> str:
    parts = [
        f"Run a command with bash on {platform.system()}/{platform.machine()} and return its output, stdout "
        "and stderr together.",
        f"Only the last {MAX_LINES} lines or {format_size(MAX_BYTES)} are returned; the full output then is "
        "in a temporary file named in the result.",
        f"The default timeout is {timeout:g} s; ask for more with `timeout` before a long build or test run.",
        "There is no terminal and no input: prompts fail, editors that other programs open (git commit) end "
        "at once, and programs for a terminal (vi, top, watch) may run until the timeout.",
        "Each call starts a new shell: `cd` and variables do not persist. `cwd` runs the command in another "
        "directory, also when the working directory has been deleted.",
        _sandbox_note(sandbox)
        if sandbox
        else "Background jobs (`&`, nohup) are killed when the shell exits; a daemon started with setsid "
        "survives, give it its own output file.",
        "Prefer read to cat, sed, head or tail, and edit or write to sed -i or heredocs.",
        "A successful result carries a hash: pass it as `if_hash` when you run the command again, and "
        "unchanged output comes back as one short line.",
    ]
    if background:
        parts.append("For a server or a long job set `background` and follow it with the jobs tool.")
    return " ".join(parts)


def _sandbox_note(sandbox: Bubblewrap) -> str:
    network = "" if sandbox.network else " and there is no network"
    return (
        f"Commands run in a sandbox: they can change files below {sandbox.root} and in {TMP}, and see only "
        f"the system's programs besides; the home directory is empty{network}. All that a command starts "
        "ends with it."
    )


@dataclass(frozen=True, slots=True)
class Spawn:
    """A command about to be started; a spawn hook returns it, changed or not."""

    command: str
    cwd: str
    env: Mapping[str, str]


def bash_tool(
    cwd: str | os.PathLike[str] = ".",
    *,
    timeout: float = DEFAULT_TIMEOUT,
    prefix: str = "",
    env: Mapping[str, str | None] | None = None,
    env_filter: bool | None = None,
    pass_env: Collection[str] = (),
    spawn_hook: Callable[[Spawn], Spawn] | None = None,
    jobs: JobTable | None = None,
    confine: bool = False,
    sandbox: str = "",
    network: bool = False,
    readable: Collection[str | os.PathLike[str]] = (),
    protect: Collection[str] = PROTECTED,
) -> Tool[BashArguments]:
    """Return a tool that runs commands in `cwd`.

    `timeout`: seconds until a command is killed when the model sets no other limit. `prefix`: shell text run
    before every command (`shopt -s expand_aliases`). `env`: variables to set, or to remove with None.
    `env_filter` withholds API keys, tokens and passwords of this process from commands, except the variables
    named in `pass_env`; None withholds them from confined commands only. `spawn_hook` may change command,
    directory and environment. `jobs` lets the model start background jobs.

    `confine`, or `sandbox="bwrap"`, runs commands under bubblewrap: they can write below `cwd` and in a /tmp
    that lasts as long as the tool, read the system's folders and those of `readable`, and reach no network
    without `network`. They cannot change the paths of `protect`, relative to `cwd`, which programs outside
    obey. Where bubblewrap cannot run, every call is an error that gives the reason.
    """
    if sandbox not in ("", "bwrap"):
        raise ValueError(f"sandbox is 'bwrap' or '', not {sandbox!r}")
    is_confined = confine or sandbox == "bwrap"
    box = (
        Bubblewrap(os.fspath(cwd), network=network, readable=readable, protect=protect)
        if is_confined
        else None
    )
    # A string would be iterated letter by letter.
    names = frozenset((pass_env,) if isinstance(pass_env, str) else pass_env)
    runner = _Runner(
        cwd=os.path.abspath(cwd),
        timeout=timeout,
        prefix=prefix,
        changes=dict(env or {}),
        pass_env=names if env_filter or (env_filter is None and is_confined) else None,
        spawn_hook=spawn_hook,
        jobs=jobs,
        filesystem=ConfinedFilesystem(cwd) if box else FILESYSTEM,
        sandbox=box,
    )
    return Tool(
        "bash",
        _description(timeout, jobs is not None, box),
        BashArguments if jobs is None else BackgroundBashArguments,
        runner.run,
        display_hint=DisplayHint(
            title_args=(TitleArg("command", "accent"), TitleArg("timeout", label="timeout")), use_box=True
        ),
    )


@dataclass(frozen=True, slots=True)
class _Runner:
    """The options of one bash tool. Immutable, so calls may run at the same time."""

    cwd: str
    timeout: float
    prefix: str
    changes: Mapping[str, str | None]
    pass_env: frozenset[str] | None
    spawn_hook: Callable[[Spawn], Spawn] | None
    jobs: JobTable | None
    filesystem: Filesystem
    sandbox: Bubblewrap | None

    def run(self, arguments: BashArguments, context: CallContext) -> Result:
        spawn = self._spawn(arguments)
        if not os.path.isdir(spawn.cwd):
            raise _missing_directory(spawn.cwd)
        if self.jobs is not None and getattr(arguments, "background", False):
            job = self.jobs.start(arguments.command, lambda: self._start(spawn), self._capture())
            return Result(f"Started background job {job.id}; follow it with jobs.", details={"job": job.id})
        timeout = arguments.timeout if arguments.timeout and arguments.timeout > 0 else self.timeout
        with _recorded_in(getattr(context, "journal", None), spawn.cwd):
            capture, ending = _follow(self._start(spawn), self._capture(), timeout, context)
        return _result(capture, ending, timeout, arguments.if_hash)

    def _spawn(self, arguments: BashArguments) -> Spawn:
        if not arguments.command.strip():
            raise ToolFailure("command is required")
        environ = os.environ if self.pass_env is None else filtered_environment(os.environ, self.pass_env)
        spawn = Spawn(
            command=f"{self.prefix}\n{arguments.command}" if self.prefix else arguments.command,
            cwd=resolve(arguments.cwd, self.cwd, filesystem=self.filesystem) if arguments.cwd else self.cwd,
            env=command_environment(environ, self.changes),
        )
        return self.spawn_hook(spawn) if self.spawn_hook else spawn

    def _capture(self) -> Capture:
        return Capture(self.sandbox.logs, LOGS) if self.sandbox else Capture()

    def _start(self, spawn: Spawn) -> Command:
        try:
            script = spawn.command if os.name == "nt" else encode(spawn.command)
        except UnicodeEncodeError as error:
            raise _unusable(error) from None
        argv: list[str | bytes] = [_find_bash(spawn.env.get("PATH", os.defpath)), "-c", script]
        if self.sandbox is None:
            return _start(argv, spawn, spawn.cwd)
        wrapped = self.sandbox.wrap(argv, os.path.realpath(spawn.cwd), spawn.env)
        try:
            return _start(wrapped.argv, spawn, self.sandbox.root, wrapped.end)
        except BaseException:
            wrapped.end()
            raise


def _unusable(error: ValueError) -> ToolFailure:
    return ToolFailure(f"the command cannot be passed to bash, it was not run: {error}")


def _start(
    argv: list[str | bytes], spawn: Spawn, cwd: str, on_end: Callable[[], str] | None = None
) -> Command:
    try:
        return Command(argv, cwd=cwd, env=spawn.env, on_end=on_end)
    except ValueError as error:
        raise _unusable(error) from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            size = len(encode(spawn.command))
            raise ToolFailure(
                f"the command is too long for the system ({format_size(size)}), it was not run; put it into "
                "a file with write and run that"
                if size >= _LONG_COMMAND
                else "the environment variables are too long for the system, the command was not run"
            ) from None
        if not os.path.isdir(spawn.cwd):
            raise _missing_directory(spawn.cwd) from None
        raise ToolFailure(f"bash could not be started: {error.strerror or error}") from None


def _find_bash(path: str) -> str:
    if os.name == "nt":
        # The first bash on PATH may be that of WSL, which starts a Linux; Git's bash runs on Windows itself.
        git = shutil.which("git", path=path)
        bash = os.path.join(os.path.dirname(git), "..", "bin", "bash.exe") if git else ""
        if os.path.isfile(bash):
            return os.path.normpath(bash)
    if bash := shutil.which("bash", path=path) or "":
        return bash
    hint = "; on Windows it needs Git Bash, which comes with Git for Windows" if os.name == "nt" else ""
    raise ToolFailure(f"bash was not found on PATH, so the command was not run{hint}")


def _missing_directory(cwd: str) -> ToolFailure:
    what = "no longer exists as a directory" if os.path.exists(cwd) else "no longer exists"
    return ToolFailure(
        f"The working directory {cut_line(cwd)} {what}, so the command was not run. A worktree may have been "
        "removed, a temporary directory cleaned up or a branch switched. Pass `cwd` with the absolute path "
        "of a directory that exists, or create this one again."
    )


@contextlib.contextmanager
def _recorded_in(journal: Any, cwd: str) -> Iterator[None]:
    """Call an undo journal before and after the command."""
    if journal is None:
        yield
        return
    journal.before_command(cwd)
    try:
        yield
    finally:
        journal.after_command(cwd)


def _follow(
    command: Command, capture: Capture, timeout: float, context: CallContext
) -> tuple[Capture, Ending]:
    """Read the output to its end and send updates; returns it with the ending of the command."""
    shown, due = 0, 0.0
    with command:
        for chunk in command.output(timeout=timeout, cancel=context.cancel):
            if chunk:
                capture.feed(chunk)
            if capture.received_bytes > shown and (now := time.monotonic()) >= due:
                shown, due = capture.received_bytes, now + UPDATE_INTERVAL
                context.update(Result(capture.recent(UPDATE_BYTES)))
    return capture, command.ending


def _result(capture: Capture, ending: Ending, timeout: float, if_hash: str | None) -> Result:
    captured = capture.finish()
    notice = f"\n\n{ending.notice}" if ending.notice else ""
    if ending.stopped == "timeout":
        advice = "ask for a longer `timeout` if it needs more time"
        return _error(captured, f"Command timed out after {timeout:g} s and was killed; {advice}{notice}", "")
    if ending.stopped == "aborted":
        return _error(captured, f"Command aborted{notice}", "")
    if ending.code:
        return _error(captured, f"Command {ending}{notice}", "(no output)")
    if if_hash == captured.hash:
        capture.discard_log()
        details = {"unchanged": True, "hash": captured.hash}
        return Result(f"Output unchanged (hash {captured.hash}).{notice}", details=details)
    details = {"hash": captured.hash}
    if captured.raw:
        details["rawOutput"] = captured.raw
    if captured.log_path:
        details["fullOutputPath"] = captured.log_path
    text = _text(captured, "(no output)")
    if notice:
        text = text.removesuffix("\n") + notice
    return Result(text, details=details, meta={"hash": captured.hash})


def _error(captured: Captured, outcome: str, placeholder: str) -> Result:
    text = _text(captured, placeholder).removesuffix("\n")
    return Result(f"{text}\n\n{outcome}" if text else outcome, is_error=True)


def _text(captured: Captured, placeholder: str) -> str:
    if captured.notice:
        return captured.text.removesuffix("\n") + "\n\n" + captured.notice
    return captured.text or placeholder
