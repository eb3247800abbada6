"""What the agent may do without asking: rules, a mode for what no rule names, and a way to ask.

`Permissions.before_tool` is a hook. It asks through a function that whoever shows the run brings along: it
is called with a `Question` on the agent's worker thread and gives an `Answer`; while it waits it must mind
`question.cancel`. Without such a function what would be asked is denied, and the model is told why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.cancel import CancelToken
from agent.cli.permissions.files import ANSWERS_FILE, MODES, Mode, Settings, load_settings, save_answer
from agent.cli.permissions.planned_change import planned_change
from agent.cli.permissions.rules import Call, Judgement, judge, parse_rule, rules_for
from agent.hook_types import ToolCallInfo, ToolDecision

# They change nothing; inside the working folder nobody wants to be asked for them.
_READING = frozenset(("read", "grep", "find", "ls", "editdiff"))
_HARMLESS = frozenset(("plan",))
_TOOLS = _READING | _HARMLESS | {"bash", "edit", "write", "imageresize", "jobs"}


@dataclass(frozen=True, slots=True)
class Question:
    """A call that needs a yes: what it is, why it is asked, and what it would do.

    `command` is set for a shell command, `diff` for a change of a file (rows as of `agent_tools.diff`).
    `rules` are what "always" would keep; without any, always is the same as yes.
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
    """What a person says to a question. `reason` is told to the model when the answer is no."""

    allowed: bool
    always: bool = False
    reason: str = ""


YES, NO, ALWAYS = Answer(True), Answer(False), Answer(True, always=True)

Ask = Callable[[Question], Answer]


class Permissions:
    """Judges every call by the settings, and asks where they say so.

    Threads: `before_tool` may be called by several runs at once; rules that an answer adds are put in place
    as a whole. What `ask` needs to be safe is its own affair.
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
        tell: Callable[[str], object] = lambda text: None,
    ) -> None:
        """`mode` is what the command line says, `default` what holds when nothing says anything."""
        self.mode = mode or max(settings.mode or default, settings.at_least, key=MODES.index)
        self._rules = settings.rules
        self._cwd = cwd
        self._environ = environ
        self._ask = ask
        self._tell = tell
        self._files = frozenset(map(os.path.realpath, settings.files))

    def before_tool(self, info: ToolCallInfo) -> ToolDecision | None:
        """None when the call may run, else a denial whose reason tells the model what it can do."""
        call = Call(info.name, info.arguments, self._cwd)
        judgement = self._judge(call)
        if judgement.verdict == "allow":
            return None
        if judgement.verdict == "deny":
            return ToolDecision.deny(f"Not allowed by {judgement.why}. Do not try to get around it.")
        if self.mode == "deny" or self._ask is None:
            return ToolDecision.deny(self._nobody_to_ask(judgement))
        question = _question(info, call, judgement.why)
        answer = self._ask(question)
        if info.cancel.is_set():
            return ToolDecision.deny("aborted")
        if not answer.allowed:
            said = f" and said: {answer.reason}" if answer.reason else ""
            return ToolDecision.deny(f"The user refused this call{said}.")
        if answer.always and question.rules:
            self._keep(question.rules)
        return None

    def _judge(self, call: Call) -> Judgement:
        judgement = judge(call, self._rules)
        touched = next((real for _, real in call.paths if real in self._files), "")
        if touched and call.tool not in _READING and judgement.verdict != "deny" and self._holds_anything:
            return Judgement("ask", f"{touched} says what you may do")
        if judgement.verdict is not None:
            return judgement
        if self.mode == "auto" or _changes_nothing(call):
            return Judgement("allow")
        return Judgement("ask", "no rule allows it")

    @property
    def _holds_anything(self) -> bool:
        return bool(self._rules) or self.mode != "auto"

    def _nobody_to_ask(self, judgement: Judgement) -> str:
        where = "with --approve deny nobody is asked" if self.mode == "deny" else "nobody can be asked here"
        return (
            f"This call needs approval ({judgement.why}), and {where}. Go on without it, or say what you "
            "need. The user can run agent in a terminal, allow such calls by a rule, or use "
            "--approve auto."
        )

    def _keep(self, texts: tuple[str, ...]) -> None:
        source = ANSWERS_FILE
        rules = [parse_rule("allow", t, base=self._cwd, of_project=True, source=source) for t in texts]
        self._rules = (*self._rules, *rules)
        try:
            path = save_answer(self._cwd, texts, self._environ)
        except (OSError, ValueError) as error:
            self._tell(f"the answer holds until the end, but could not be kept: {error}")
        else:
            self._tell(f"kept in {path}: {', '.join(texts)}")


def permissions_for(
    options: Any,
    environ: Mapping[str, str],
    *,
    default: Mode = "auto",
    ask: Ask | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> Permissions | None:
    """The permissions for parsed options; None when everything is allowed, which costs nothing then.

    Raises ConfigurationError for a file of rules that can't be understood.
    """
    settings = load_settings(options.cwd, environ)
    for note in (*settings.notes, *_unknown_tools(settings)):
        tell(note)
    made = Permissions(
        settings, options.cwd, environ, mode=options.approve, default=default, ask=ask, tell=tell
    )
    return None if made.mode == "auto" and not settings.rules else made


def _unknown_tools(settings: Settings) -> list[str]:
    """A note for each rule about a tool that we do not have: it may be misspelt, and then does not hold."""
    return [
        f"the rule {rule.text} of {rule.source} is for a tool that is not known here"
        for rule in settings.rules
        if not any(rule.is_for(tool) for tool in _TOOLS)
    ]


def _changes_nothing(call: Call) -> bool:
    if call.tool in _HARMLESS:
        return True
    return call.tool in _READING and all(call.is_inside(real) for _, real in call.paths)


def _question(info: ToolCallInfo, call: Call, why: str) -> Question:
    change = planned_change(info.name, info.arguments, call.cwd)
    return Question(
        info.id,
        info.name,
        info.arguments,
        why,
        call.command,
        change.diff if change else "",
        rules_for(call),
        info.cancel,
    )
