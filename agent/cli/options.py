"""The command line: its parsers, and the parsed options as frozen records."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Literal, NoReturn, TypeVar, get_args

from agent.errors import ConfigurationError
from agent.thinking import THINKING_LADDER

# With its waits some minutes: longer than most limits per minute and short failures of a provider.
DEFAULT_MAX_RETRIES = 12
# Enough for a long task, which needs a few dozen turns; a forgotten run still ends.
DEFAULT_MAX_TURNS = 100

# How alike an unknown option and the one that the error suggests must be, from 0 to 1.
_NEAR = 0.7

_EPILOG = """\
The model is --model, else AGENT_MODEL, else that of the first provider whose key is in the environment.
Exit code: 0 done, 1 failed or stopped at the turn limit, 2 misuse, 130 interrupted.

  agent                                    an interactive session in this folder
  agent "fix the failing test"             run one task and exit
  git diff | agent -p "review this"        standard input is added to the prompt
  agent -q "write a changelog" > out.md    only the last answer goes into the file
  agent -- "-v prints nothing, fix it"     a prompt that begins with a dash or a subcommand
  agent models [PATTERN]                   the known models, their limits and prices
  agent demo                               try it without an API key
"""


ApprovalMode = Literal["ask", "edits", "auto", "deny"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `agent [options] [prompt]`, used by every mode but `demo` and `models`."""

    words: Sequence[str] = ()
    prompt: str | None = None
    model: str | None = None
    base_url: str = ""
    thinking: str = "off"
    tools: Sequence[str] | None = None  # None: all of them
    max_turns: int = DEFAULT_MAX_TURNS
    max_retries: int = DEFAULT_MAX_RETRIES
    json: bool = False
    rpc: bool = False
    acp: bool = False
    quiet: bool = False
    system_prompt: str = ""
    append_system_prompt: str = ""
    cwd: str = "."
    approve: ApprovalMode | None = None  # None: from the settings files
    context_files: bool = True
    pass_env: Sequence[str] = ()
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `agent demo`."""

    model: str | None = None
    base_url: str = ""
    thinking: str = "off"
    tools: Sequence[str] | None = None
    max_turns: int = DEFAULT_MAX_TURNS
    project: str | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class ModelsOptions:
    """The options of `agent models`."""

    pattern: str = ""


def parse_run(arguments: Sequence[str]) -> RunOptions:
    """Parse `agent [options] [prompt]`; `cwd` is absolute afterwards.

    Raises ConfigurationError when `--cwd` is not a folder. A wrong option ends the program with code 2.
    """
    parsed = _parse_words(run_parser(), arguments)
    parsed.cwd = _absolute_folder(parsed.cwd)
    return _record(RunOptions, parsed)


def parse_demo(arguments: Sequence[str]) -> DemoOptions:
    """Parse the arguments after `agent demo`; arguments that it lacks end the program with code 2."""
    return _record(DemoOptions, _parse_subcommand(demo_parser(), "demo", arguments))


def parse_models(arguments: Sequence[str]) -> ModelsOptions:
    """Parse the arguments after `agent models`; more than one pattern ends the program with code 2."""
    return _record(ModelsOptions, _parse_subcommand(models_parser(), "models", arguments))


def _parse_words(parser: _Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse options with the words of a prompt before, between and behind them; all after `--` are words."""
    given = list(arguments)
    end = given.index("--") if "--" in given else len(given)
    parser.given = given[:end]
    parsed = parser.parse_intermixed_args(parser.given)
    parsed.words = [*parsed.words, *given[end + 1 :]]
    return parsed


def _parse_subcommand(parser: _Parser, name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a subcommand. The error for further words names the way to prompt with them."""
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        words = [] if all(word.startswith("-") for word in unknown) else [name, *arguments]
        parser.error(f"unrecognized arguments: {' '.join(unknown)}", prompt=words)
    return parsed


_Record = TypeVar("_Record", RunOptions, DemoOptions, ModelsOptions)


def _record(kind: type[_Record], parsed: argparse.Namespace) -> _Record:
    return kind(**{field.name: getattr(parsed, field.name) for field in fields(kind)})


def _absolute_folder(path: str) -> str:
    try:
        folder = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise ConfigurationError(
            "the current folder no longer exists: change to another one, or name one with --cwd"
        ) from None
    if not os.path.isdir(folder):
        raise ConfigurationError(f"--cwd: {path} is not a folder")
    return folder


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line: the usage text would push it off the screen.

    `given`: the arguments that may be a prompt which looks like an option.
    """

    given: Sequence[str] = ()

    def error(self, message: str, prompt: Sequence[str] = ()) -> NoReturn:
        """End the program with code 2. `prompt`: the words that were perhaps meant as one."""
        hint = self._as_prompt(prompt) or self._dashed_prompt(message) or self._suggestion(message)
        self.exit(2, f"{self.prog}: {message}{hint} (see {self.prog} --help)\n")

    def _as_prompt(self, words: Sequence[str]) -> str:
        return f"; to send this as a prompt: agent -- {shlex.join(words)}" if words else ""

    def _dashed_prompt(self, message: str) -> str:
        """How to give a prompt that begins with a dash, where the error is about one."""
        if message.startswith("argument -p/--prompt: expected"):
            following = [text for option, text in pairwise(self.given) if option in ("-p", "--prompt")]
            return (
                f"; a value that begins with a dash follows =: -p={shlex.quote(following[0])}"
                if following
                else ""
            )
        for index, word in enumerate(self.given):
            if (
                len(word) > 2
                and word[0] == "-"
                and word[1] != "-"
                and word not in self._option_string_actions
            ):
                if "=" in word[:3] or word.startswith("-p"):
                    continue
                words = shlex.join(self.given[index:])
                return f"; a prompt that begins with a dash follows --: agent -- {words}"
        return ""

    def _suggestion(self, message: str) -> str:
        what, _, words = message.partition(": ")
        if what != "unrecognized arguments":
            return ""
        from difflib import get_close_matches

        name = words.split()[0].partition("=")[0]
        near = get_close_matches(name, self._option_string_actions, n=1, cutoff=_NEAR)
        return f"; did you mean {near[0]}?" if near else ""


def run_parser() -> _Parser:
    """The parser of `agent [options] [prompt]`."""
    parser = _Parser(
        prog="agent",
        description="A coding agent that works in this folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="prompt", help="what to do")
    parser.add_argument("-p", "--prompt", help="what to do; '-' reads it from standard input")
    _add_shared_options(parser)
    parser.add_argument(
        "--max-retries",
        metavar="N",
        type=_natural_number,
        default=DEFAULT_MAX_RETRIES,
        help="try a request again N times when the provider limits the rate, is overloaded or fails "
        f"(default {DEFAULT_MAX_RETRIES}: some minutes; 0: never)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")
    parser.add_argument("--rpc", action="store_true", help="take commands as JSON lines (docs/rpc.md)")
    parser.add_argument(
        "--acp", action="store_true", help="serve an editor: Agent Client Protocol (docs/editors.md)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only answers: nothing about tools")
    parser.add_argument(
        "--system-prompt", metavar="TEXT", default="", help="replace the built-in system prompt"
    )
    parser.add_argument(
        "--append-system-prompt", metavar="TEXT", default="", help="append to the system prompt"
    )
    parser.add_argument("--cwd", metavar="DIR", default=".", help="work in this folder")
    parser.add_argument(
        "--approve",
        choices=get_args(ApprovalMode),
        help="for calls that no rule covers: ask before anything that changes something, ask but for edits "
        "in the folder, run them (the default), or deny them; docs/approvals.md describes rules",
    )
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="confine the tools to the folder: files outside are refused; commands run under bubblewrap "
        "without network, or not at all where it can't run",
    )
    parser.add_argument(
        "--no-context-files",
        dest="context_files",
        action="store_false",
        help="leave AGENTS.md and CLAUDE.md out of the system prompt",
    )
    parser.add_argument(
        "--pass-env",
        metavar="NAME",
        action="append",
        default=[],
        help="pass this variable to commands although its name looks like a secret; may be repeated",
    )
    for reserved in ("--continue", "--resume"):
        parser.add_argument(
            reserved, action=_NotYet, nargs=0, help="not yet: sessions come with a later version"
        )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    return parser


def models_parser() -> _Parser:
    """The parser of `agent models`."""
    parser = _Parser(
        prog="agent models",
        description="List the known models: limits in tokens, prices, images, thinking levels.",
    )
    parser.add_argument("pattern", nargs="?", default="", metavar="PATTERN", help="part of a name")
    return parser


def demo_parser() -> _Parser:
    """The parser of `agent demo`."""
    parser = _Parser(
        prog="agent demo",
        description="Repair a small broken project in a temporary folder, then run its tests.",
    )
    _add_shared_options(parser)
    parser.add_argument(
        "--project", metavar="DIR", help="repair a copy of this project, not the built-in one"
    )
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    return parser


def _add_shared_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PROVIDER/ID", help="for example openai/gpt-5-mini, ollama/qwen3")
    parser.add_argument(
        "--base-url", metavar="URL", default="", help="use this server instead of the provider's"
    )
    parser.add_argument("--thinking", choices=tuple(reversed(THINKING_LADDER)), default="off")
    parser.add_argument("--tools", metavar="A,B", type=_tool_names, help="only these tools; 'none' for none")
    parser.add_argument(
        "--max-turns",
        metavar="N",
        type=_positive_integer,
        default=DEFAULT_MAX_TURNS,
        help=f"stop after this many turns (default {DEFAULT_MAX_TURNS})",
    )


def _tool_names(text: str) -> Sequence[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def _positive_integer(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def _natural_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 9999")
    return int(text)


class _NotYet(argparse.Action):
    """Reserves the name of an option that is not implemented yet."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(f"{self.option_strings[0]}: not yet; sessions are not kept on disk in this version")


class _Version(argparse.Action):
    """Looks the version up only when asked: reading the metadata takes longer than parsing all options."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{parser.prog} {version()}")
        parser.exit()


def version() -> str:
    """The installed version."""
    import importlib.metadata

    try:
        return importlib.metadata.version("steady-agent")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
