"""What may be written on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from agent.thinking import THINKING_LADDER

# A forgotten run should not go on all night; a long task needs a few dozen turns.
DEFAULT_MAX_TURNS = 100

_EPILOG = """\
The model is --model, else AGENT_MODEL, else that of the first provider whose key is in the environment.
Exit code: 0 done, 1 failed or stopped at the turn limit, 2 misuse, 130 interrupted.

  agent                                    work together in this folder, in the terminal
  agent "fix the failing test"             one task, and exit
  git diff | agent -p "review this"        standard input is added to the prompt
  agent models [PATTERN]                   the known models, their limits and prices
  agent demo                               see it work, without a key
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: the list of all options would push it out of sight."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}{self._near(message)} ({self.prog} --help tells more)\n")

    def _near(self, message: str) -> str:
        what, _, words = message.partition(": ")
        if what != "unrecognized arguments":
            return ""
        from difflib import get_close_matches

        near = get_close_matches(words.split()[0].partition("=")[0], self._option_string_actions, n=1)
        return f"; did you mean {near[0]}?" if near else ""


def run_parser() -> argparse.ArgumentParser:
    """The parser of `agent [options] [prompt]`."""
    parser = _Parser(
        prog="agent",
        description="A coding agent at work in this folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="prompt", help="what to do")
    parser.add_argument("-p", "--prompt", help="what to do; '-' reads it from standard input")
    _shared(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")
    parser.add_argument("--rpc", action="store_true", help="take commands as JSON lines (docs/rpc.md)")
    parser.add_argument(
        "--acp", action="store_true", help="serve an editor: Agent Client Protocol (docs/editors.md)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the answers alone")
    parser.add_argument("--system-prompt", metavar="TEXT", default="", help="use this instead of our own")
    parser.add_argument("--append-system-prompt", metavar="TEXT", default="", help="add this to it")
    parser.add_argument("--cwd", metavar="DIR", default=".", help="work in this folder")
    parser.add_argument(
        "--approve",
        choices=("ask", "auto", "deny"),
        help="calls that no rule names: ask before what changes something, run them (the default), or deny "
        "them; docs/approvals.md tells of rules",
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
        help="let commands see this variable although its name says that it is a secret; may be repeated",
    )
    for later in ("--continue", "--resume"):
        parser.add_argument(
            later, action=_NotYet, nargs=0, help="not yet: sessions come with a later version"
        )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    return parser


def models_parser() -> argparse.ArgumentParser:
    """The parser of `agent models`."""
    parser = _Parser(
        prog="agent models",
        description="The models known by name: windows and limits in tokens, prices, images, thinking.",
    )
    parser.add_argument("pattern", nargs="?", default="", metavar="PATTERN", help="part of a name")
    return parser


def demo_parser() -> argparse.ArgumentParser:
    """The parser of `agent demo`."""
    parser = _Parser(
        prog="agent demo",
        description="Repair a small broken project in a temporary folder, then run its tests.",
    )
    _shared(parser)
    parser.add_argument("--project", metavar="DIR", help="repair a copy of this project instead of ours")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    return parser


def _shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PROVIDER/ID", help="for example openai/gpt-5-mini, ollama/qwen3")
    parser.add_argument(
        "--base-url", metavar="URL", default="", help="the server, when not the provider's own"
    )
    parser.add_argument("--thinking", choices=tuple(reversed(THINKING_LADDER)), default="off")
    parser.add_argument("--tools", metavar="A,B", type=_names, help="only these tools; 'none' for none")
    parser.add_argument(
        "--max-turns",
        metavar="N",
        type=_positive,
        default=DEFAULT_MAX_TURNS,
        help=f"stop after this many answers (default {DEFAULT_MAX_TURNS})",
    )


def _names(text: str) -> Sequence[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


class _NotYet(argparse.Action):
    """Keeps the place of an option that is still to come."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(f"{self.option_strings[0]}: not yet; sessions are not kept on disk in this version")


class _Version(argparse.Action):
    """Looks the version up when asked: reading the metadata takes longer than all other options together."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{parser.prog} {version()}")
        parser.exit()


def version() -> str:
    """The version that is installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version("steady-agent")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
