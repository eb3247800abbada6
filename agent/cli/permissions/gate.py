"""The `before_tool` hook that applies the permission rules and asks the user where they say so.

The user interface passes an `ask` function. It is called with a `Question` on the agent's worker thread and
returns an `Answer`; while it waits it must also watch `question.cancel`. Without an `ask` function such calls
are denied, and the reason goes to the model.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.cancel import CancelToken
from agent.cli.options import RunOptions
from agent.cli.permissions.files import ANSWERS_FILE, MODES, Mode, Settings, load_settings, save_answer
from agent.cli.permissions.judging import Judgement, judge, narrowest_rules
from agent.cli.permissions.paths_of_call import PathUse
from agent.cli.permissions.planned_change import Change, planned_change
from agent.cli.permissions.rules import KNOWN_TOOLS, Call, parse_rule, runs_commands
from agent.cli.permissions.self_grant import ProtectedFiles
from agent.hook_types import ToolCallInfo, ToolDecision

# Read-only tools: inside the working folder they run without a question.
_READ_ONLY = frozenset(("read", "grep", "find", "ls", "editdiff"))
_EDITS = frozenset(("write", "edit"))
NO_RULE = "no rule allows it"
_SEARCHES = frozenset(("grep", "find", "ls"))
_ALWAYS_ALLOWED = frozenset(("plan",))


@dataclass(frozen=True, slots=True)
class Question:
    """A call that needs the user's approval.

    `why` names the rule or setting that asks. `command` is set for a shell command, `diff` for a change of a
    file (rows as in `agent_tools.diff`). `rules` are the rules that "always" would store; when there are
    none, "always" means "yes".
    """

    id: str
    tool: str
    arguments: Mapping[str, Any]
    why: str
    command: str
    diff: str
    rules: tuple[str, ...]
    cancel: CancelToken


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer to a question. `reason` is sent to the model when the call is refused."""

    allowed: bool
    always: bool = False
    reason: str = ""


YES, NO, ALWAYS = Answer(True), Answer(False), Answer(True, always=True)

Ask = Callable[[Question], Answer]


class Permissions:
    """Judges every tool call by the settings, and asks the user where they say so.

    Threads: `before_tool` may be called by several runs at the same time. `_lock` guards what answers add to
    the rules and to the searchable folders; readers see either value as a whole. `ask` must be safe to call
    from several threads.
    """

    def __init__(
        self,
        settings: Settings,
        cwd: str,
        environ: Mapping[str, str],
        *,
        mode: Mode | None = None,
        default: Mode = "auto",
        ask: Ask | None = None,
        notify: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Create the hook for one working folder.

        `mode` comes from the command line, `default` applies when neither it nor a file sets a mode. `notify`
        is called with lines to show to the user.
        """
        self.mode = mode or max(settings.mode or default, settings.at_least, key=MODES.index)
        self._rules = settings.rules
        self._cwd = cwd
        self._environ = environ
        self._ask = ask
        self._notify = notify
        self._protected = ProtectedFiles(environ)
        self._lock = threading.Lock()
        self._searchable: frozenset[str] = frozenset()  # folders that the user allowed to search

    def before_tool(self, info: ToolCallInfo) -> ToolDecision | None:
        """Return None when the call may run, else a denial whose reason tells the model what it can do."""
        call = Call(info.name, info.arguments, self._cwd)
        judgement = self._judge(call)
        if judgement.verdict == "allow":
            return None
        if judgement.verdict == "deny":
            return ToolDecision.deny(f"Not allowed by {judgement.why}. Do not try to get around it.")
        if self.mode == "deny" or self._ask is None:
            return ToolDecision.deny(self._approval_unavailable(judgement))
        return self._decide_by_user(info, call, judgement.why)

    def _decide_by_user(self, info: ToolCallInfo, call: Call, why: str) -> ToolDecision | None:
        """Ask until what was shown is still what the call would do after the answer."""
        assert self._ask is not None
        while True:
            shown = _effect(call)
            question = _question(info, call, why, shown.change)
            answer = self._ask(question)
            if info.cancel.is_set():
                return ToolDecision.deny("aborted")
            if not answer.allowed:
                reason = f" and said: {answer.reason}" if answer.reason else ""
                return ToolDecision.deny(f"The user refused this call{reason}.")
            call = Call(info.name, info.arguments, self._cwd)
            judgement = self._judge(call)
            if judgement.verdict == "deny":
                return ToolDecision.deny(f"Not allowed by {judgement.why}. Do not try to get around it.")
            if _effect(call) == shown:
                break
            why = "its files or folders changed while you were asked"
        if answer.always and question.rules:
            self._store(question.rules)
        if call.tool in _SEARCHES:
            with self._lock:
                self._searchable |= {os.path.join(use.real, "") for use in call.uses}
        return None

    def exclude_for(self, tool: str) -> Callable[[str], bool] | None:
        """The `exclude` option of grep, find or ls: what the rules hide from that tool; None for nothing.

        A denied path is left out of every search. One that a rule asks for is left out until the user allowed
        a search that starts in it. What `read` may not read, grep does not search.
        """
        tools = (tool, "read") if tool == "grep" else (tool,)
        hiding = [
            rule
            for rule in self._rules
            if rule.pattern and rule.verdict != "allow" and not runs_commands(rule.tool)
            if any(map(rule.is_for, tools))
        ]
        if not hiding:
            return None

        def is_excluded(real: str) -> bool:
            verdicts = {rule.verdict for rule in hiding if rule.path.matches_real(real)}
            return "deny" in verdicts or ("ask" in verdicts and not real.startswith(tuple(self._searchable)))

        return is_excluded

    def _judge(self, call: Call) -> Judgement:
        judgement = judge(call, self._rules)
        if judgement.verdict != "deny" and self._is_active and (touched := self._protected.touched_by(call)):
            return Judgement("ask", f"{touched} holds permission rules")
        if judgement.verdict is not None:
            return judgement
        if self.mode == "auto" or _is_harmless(call):
            return Judgement("allow")
        if self.mode == "edits" and _is_edit_in_folder(call):
            return Judgement("allow")
        return Judgement("ask", NO_RULE)

    @property
    def _is_active(self) -> bool:
        return bool(self._rules) or self.mode != "auto"

    def _approval_unavailable(self, judgement: Judgement) -> str:
        where = "--approve deny asks no questions" if self.mode == "deny" else "there is no user to ask"
        return (
            f"This call needs approval ({judgement.why}), and {where}. Continue without it, or tell the user "
            "what you need. The user can run agent in a terminal, allow such calls with a rule, or use "
            "--approve auto."
        )

    def _store(self, texts: tuple[str, ...]) -> None:
        source = ANSWERS_FILE
        rules = [parse_rule("allow", t, base=self._cwd, is_project=True, source=source) for t in texts]
        with self._lock:
            self._rules = (*self._rules, *rules)
        try:
            path = save_answer(self._cwd, texts, self._environ)
        except (OSError, ValueError) as error:
            self._notify(f"the answer holds for this run, but could not be saved: {error}")
        else:
            self._notify(f"saved in {path}: {', '.join(texts)}")


def permissions_for(
    options: RunOptions,
    environ: Mapping[str, str],
    *,
    default: Mode = "auto",
    ask: Ask | None = None,
    notify: Callable[[str], object] = lambda text: None,
) -> Permissions | None:
    """The permissions for parsed options; None when every call is allowed, so that no hook runs.

    Raises ConfigurationError for an invalid settings file.
    """
    settings = load_settings(options.cwd, environ)
    for note in (*settings.notes, *_unknown_tools(settings)):
        notify(note)
    permissions = Permissions(
        settings, options.cwd, environ, mode=options.approve, default=default, ask=ask, notify=notify
    )
    return None if permissions.mode == "auto" and not settings.rules else permissions


def _unknown_tools(settings: Settings) -> list[str]:
    """A note for each rule whose tool does not exist: the name may be misspelt."""
    return [
        f"the rule {rule.text} of {rule.source} names a tool that does not exist"
        for rule in settings.rules
        if not any(map(rule.is_for, KNOWN_TOOLS))
    ]


def _is_harmless(call: Call) -> bool:
    if call.tool in _ALWAYS_ALLOWED:
        return True
    return call.tool in _READ_ONLY and all(call.is_inside(use.real) for use in call.uses)


def _is_edit_in_folder(call: Call) -> bool:
    """True for a change in the working folder, except in `.git`, whose hooks and settings run commands."""
    return (
        call.tool in _EDITS
        and bool(call.uses)
        and all(call.is_inside(use.real) and ".git" not in use.real.lower().split("/") for use in call.uses)
    )


@dataclass(frozen=True, slots=True)
class _Effect:
    """What an answer is about: the paths of a call, the folder of a command, and the change of a file."""

    folder: str
    uses: tuple[PathUse, ...]
    change: Change | None


def _effect(call: Call) -> _Effect:
    return _Effect(
        call.folder if call.command else "", call.uses, planned_change(call.tool, call.arguments, call.cwd)
    )


def _question(info: ToolCallInfo, call: Call, why: str, change: Change | None) -> Question:
    return Question(
        info.id,
        info.name,
        info.arguments,
        why,
        call.command,
        change.diff if change else "",
        narrowest_rules(call),
        info.cancel,
    )
