"""Finds the commands that a simple command runs through wrappers (`sudo`, `xargs`) and text (`sh -c`).

Rules that ask or deny are matched against all of them. Where the line is drawn:

- A program whose arguments name a command (`sudo`, `find -exec`, `ssh`, `docker exec`, `uv run`) is searched.
- An argument that is shell text (`sh -c`, `eval`, `trap`, `git -c alias.x=!...`) is split like the command.
- Code in another language (`python -c`), shell scripts by name and text with unknown parts are opaque.
- Programs that run files of the project (`make`, `pytest`, `python x.py`) count as what they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agent.cli.permissions.shell_lexer import (
    EXPANSIONS,
    Command,
    Unparsable,
    fragments,
    parse_script,
    without_markers,
)

_MAX_DEPTH = 5  # of shell text in shell text
_MAX_COMMANDS = 200  # that one command runs; with more of them it is opaque
_NOT_ONE_WORD = re.compile(r"[\s;&|()<>`$]")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The arguments of a program before the command that it runs.

    `values` are its short options with a value, `flags` those without, `operands` the number of words before
    the command. Long options are listed in `long_values` and `long_flags`.
    """

    values: str = ""
    flags: str = ""
    operands: int = 0
    long_values: tuple[str, ...] = ()
    long_flags: tuple[str, ...] = ()
    takes_assignments: bool = False


_WRAPPERS = {
    "sudo": Wrapper("CDghpRrTtUu", "AbEHKkNnPSisBV", takes_assignments=True),
    "doas": Wrapper("Cu", "Lns"),
    "env": Wrapper("uC", "i0v", long_flags=("--ignore-environment",), takes_assignments=True),
    "command": Wrapper("", "p"),
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "exec": Wrapper("a", "cl"),
    "nohup": Wrapper(),
    "nice": Wrapper("n", long_values=("--adjustment",)),
    "ionice": Wrapper("cn", "t", long_values=("--class", "--classdata")),
    "time": Wrapper("fo", "apqv", long_values=("--format", "--output")),
    "timeout": Wrapper(
        "ks", "fpv", 1, ("--kill-after", "--signal"), ("--foreground", "--preserve-status", "--verbose")
    ),
    "stdbuf": Wrapper("ioe", long_values=("--input", "--output", "--error")),
    "setsid": Wrapper("", "cfw", long_flags=("--ctty", "--fork", "--wait")),
    "xargs": Wrapper(
        "IPLnadEs",
        "0rtxop",
        0,
        ("--replace", "--max-procs", "--max-lines", "--max-args", "--arg-file", "--delimiter"),
        ("--null", "--no-run-if-empty", "--verbose", "--exit"),
    ),
    "taskset": Wrapper("", "ac", 1, long_flags=("--cpu-list",)),
    "chrt": Wrapper("", "bfiorR", 1),
    "chroot": Wrapper("", "", 1),
    "unbuffer": Wrapper("", "p"),
    "chronic": Wrapper("", "ev"),
    "caffeinate": Wrapper("tw", "dimsu"),
    "xvfb-run": Wrapper("efnpsw", "a", long_flags=("--auto-servernum",)),
}
# Wrappers whose arguments are not known exactly: any word after them may begin a command.
_RUNNERS = frozenset(
    "flock parallel strace ltrace watch script setpriv runuser pkexec su unshare nsenter chpst prlimit "
    "systemd-run dbus-run-session firejail bwrap proot fakeroot faketime torsocks proxychains proxychains4 "
    "valgrind gdb perf entr hyperfine direnv tmux screen fd fdfind ssh docker podman kubectl oc nerdctl lxc "
    "vagrant uv uvx npx bunx pipx poetry pipenv hatch pdm rye conda mamba nix nix-shell mise asdf "
    "coproc mapfile readarray op dotenv numactl".split()
)
# Programs that run a command in some of their forms: the subcommand, and the operands before the command.
_FORM_LIST: tuple[tuple[str, dict[tuple[str, ...], int]], ...] = (
    ("uv poetry pipenv hatch pdm rye pipx conda mamba", {("run",): 0}),
    ("npx bunx uvx fakeroot strace ltrace watch pkexec", {(): 0}),
    ("ssh flock firejail", {(): 1}),
    (
        "docker podman nerdctl",
        {("exec",): 1, ("run",): 1, ("compose", "exec"): 1, ("compose", "run"): 1, ("container", "exec"): 1},
    ),
    ("kubectl oc direnv", {("exec",): 1}),
    ("npm pnpm yarn bun", {("exec",): 0, ("x",): 0, ("dlx",): 0}),
)
_FORMS = {name: forms for names, forms in _FORM_LIST for name in names.split()}
_FORM_FLAGS = frozenset(("-i", "-t", "-it", "-ti", "-T", "-d", "--rm", "--", "-q", "-f"))
_FIND = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
# Programs that take shell text as an argument, wherever it stands.
_TEXT_RUNNERS = frozenset(
    "su runuser watch script ssh parallel flock hyperfine env coproc tmux screen nix-shell "
    "entr at batch".split()
)
SHELLS = frozenset("sh bash dash zsh ksh fish ash csh tcsh".split())
_SCRIPTS = frozenset(("source", "."))
_CODE_OPTIONS = {
    "python": "c",
    "pypy": "c",
    "perl": "eE",
    "ruby": "e",
    "node": "ep",
    "nodejs": "ep",
    "php": "r",
}
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|deno|bun|Rscript|osascript)[\d.]*")
_AWK = frozenset("awk gawk mawk nawk busybox-awk".split())
_AWK_RUNS = re.compile(r"system\s*\(|\||getline|@load|@include")

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*[+:?!]*=", re.ASCII)


@dataclass(slots=True)
class Effects:
    """What a command runs: `exact` commands, `tails` any word of which may begin one, and what is unknown.

    `opaque` says why a part cannot be seen through; it is empty when all of it can.
    """

    exact: list[tuple[str, ...]] = field(default_factory=list)
    tails: list[tuple[str, ...]] = field(default_factory=list)
    opaque: str = ""


def effects_of(command: Command) -> Effects:
    """Find everything that a simple command runs."""
    effects = Effects()
    _add(command.words, effects, 0)
    return effects


def program_name(word: str) -> str:
    """The name of the program without its folder."""
    return without_markers(word).rpartition("/")[2]


def wrapped_at(words: Sequence[str]) -> int | None:
    """The index of the command that a wrapper runs, `len(words)` for none; None when it is not certain."""
    name = program_name(words[0])
    if name in _FORMS:
        return _form_at(_FORMS[name], words)
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return None
    at, operands = 1, wrapper.operands
    while at < len(words):
        word = words[at]
        if EXPANSIONS.search(word[:1]):
            return None
        if word == "-":  # of env: an empty environment
            at += 1
        elif word.startswith("-"):
            if word == "--":
                at += 1
                break
            length = _option_length(word, wrapper)
            if length is None:
                return None
            at += length
        elif wrapper.takes_assignments and _ASSIGNMENT.match(word):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return min(at + (operands if at < len(words) and words[at - 1] == "--" else 0), len(words))


def _option_length(word: str, wrapper: Wrapper) -> int | None:
    """1 or 2, the words that an option takes; None for an unknown option."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        if name in wrapper.long_values:
            return 1 if equals else 2
        return 1 if name in wrapper.long_flags else None
    for place, letter in enumerate(word[1:], 2):
        if letter in wrapper.values:
            return 1 if place < len(word) else 2
        if letter not in wrapper.flags:
            return 1 if word[1:].isdecimal() else None  # nice -5
    return 1


def is_wrapper(words: Sequence[str]) -> bool:
    """True for programs that run a command given by their arguments."""
    name = program_name(words[0])
    if name in _FORMS and () not in _FORMS[name] and len(words) > 1 and not words[1].startswith("-"):
        first = without_markers(words[1])
        return EXPANSIONS.search(words[1]) is not None or any(form[0] == first for form in _FORMS[name])
    return name in _WRAPPERS or name in _RUNNERS


def _form_at(forms: dict[tuple[str, ...], int], words: Sequence[str]) -> int | None:
    for form, operands in forms.items():
        at = len(form) + 1
        if tuple(words[1:at]) != form:
            continue
        while operands >= 0 and at < len(words):
            if words[at] in _FORM_FLAGS:
                at += 1
            elif words[at].startswith("-") or EXPANSIONS.match(words[at]):
                return None
            elif operands == 0:
                return at
            else:
                operands -= 1
                at += 1
        return len(words)
    return None


def _add(words: Sequence[str], effects: Effects, depth: int) -> None:
    while words:
        if len(effects.exact) >= _MAX_COMMANDS:
            effects.opaque = "many commands in one"
            return
        effects.exact.append(tuple(words))
        name = program_name(words[0])
        _add_texts(name, words, effects, depth)
        at = wrapped_at(words)
        if at is None:
            _add_tails(name, words, effects, depth)
            return
        words = words[at:]
        while words and _ASSIGNMENT.match(words[0]):  # of env and sudo
            words = words[1:]


def _add_tails(name: str, words: Sequence[str], effects: Effects, depth: int) -> None:
    if name == "find":
        for at, word in enumerate(words):
            if word in _FIND:
                ends = (n for n in range(at, len(words)) if words[n] in (";", "+"))
                _add(words[at + 1 : next(ends, len(words))], effects, depth)
                if effects.opaque:
                    return
        return
    if not is_wrapper(words):
        return
    effects.tails.append(tuple(words[1:]))
    names = [program_name(word) for word in words]
    for at in range(1, len(words)):
        if names[at] in SHELLS or names[at] in ("eval", "env", "su") or _INTERPRETERS.fullmatch(names[at]):
            _add_texts(names[at], words[at:], effects, depth)
            break


def _add_texts(name: str, words: Sequence[str], effects: Effects, depth: int) -> None:
    """Split the arguments that are shell text; note what cannot be seen through."""
    rest = words[1:]
    if name in _SCRIPTS:
        effects.opaque = f"{name} runs a script"
    elif name in SHELLS:
        if not rest:
            effects.opaque = f"{name} runs its input"
        elif not any(re.match(r"-[a-zA-Z]*c", word) for word in rest):
            effects.opaque = f"{name} runs a script"
        else:
            _add_shell_text([w for w in rest if w[:1] not in ("-", "+")], effects, depth)
    elif name == "eval":
        _add_shell_text([" ".join(rest)], effects, depth)
    elif name in ("alias", "trap"):
        _add_shell_text(
            [word.partition("=")[2] or word for word in rest[: None if name == "alias" else 1]],
            effects,
            depth,
        )
    elif name in _TEXT_RUNNERS:
        texts = [w for w in rest if _NOT_ONE_WORD.search(w) and not _ASSIGNMENT.match(w)]
        _add_shell_text([re.sub(r"^(-S|--split-string=|-c)", "", w) for w in texts], effects, depth)
    elif name == "git":
        _add_git_texts(words, effects, depth)
    elif interpreter := _INTERPRETERS.fullmatch(name):
        if _runs_code(interpreter[1], rest):
            effects.opaque = f"{name} runs code"
    elif name in _AWK and any(_AWK_RUNS.search(without_markers(word)) for word in rest):
        effects.opaque = f"{name} may run commands"


def _runs_code(interpreter: str, arguments: Sequence[str]) -> bool:
    """True for code in the arguments or on standard input; false for a file or a module."""
    letters = _CODE_OPTIONS.get(interpreter, "e")
    takes_value = False
    for word in arguments:
        if word in ("--eval", "--print") or word.startswith(("--eval=", "--print=")):
            return True
        if word == "eval" or (word[:1] == "-" and word[1:2] != "-" and any(x in word for x in letters)):
            return True
        if word == "-m" or not (word.startswith("-") or takes_value):
            return False
        takes_value = word in ("-W", "-X", "-I", "-M", "-r", "-d", "--require", "--import")
    return not any(word.startswith("--") for word in arguments)  # it reads its input


def _add_git_texts(words: Sequence[str], effects: Effects, depth: int) -> None:
    names = frozenset(words[1:])
    for before, word in pairwise(words):
        name, _, value = word.partition("=")
        if before == "-c" and (name.startswith("alias.") or value.startswith("!")):
            _add_shell_text([value.removeprefix("!")], effects, depth)
            effects.opaque = effects.opaque or "git runs an alias"
        elif "config" in names and word.startswith("!"):
            _add_shell_text([word[1:]], effects, depth)
        elif "rebase" in names and (before in ("-x", "--exec") or name == "--exec"):
            _add_shell_text([value or word], effects, depth)
    for subcommand in ("foreach", "run"):
        if subcommand in names and names & {"submodule", "bisect"}:
            _add_shell_text([" ".join(words[words.index(subcommand) + 1 :])], effects, depth)


def _add_shell_text(texts: Sequence[str], effects: Effects, depth: int) -> None:
    for word in texts:
        text = without_markers(word)
        if depth >= _MAX_DEPTH:
            effects.opaque = "commands in commands in commands"
            return
        try:
            commands = parse_script(text).commands
        except Unparsable as problem:
            effects.opaque = f"the command in its text has {problem}"
            commands = list(fragments(text))
        for command in commands:
            _add(command.words, effects, depth + 1)
