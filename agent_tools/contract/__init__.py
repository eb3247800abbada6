"""Checks that any tool, of this box or of yours, keeps the promises an agent builds on.

A tool is an object with `name`, `description`, `parameters` and `execute(arguments, context)`. As a function:

    check_tool(lambda root: my_tool(root), {"path": "a.txt"}, files={"a.txt": "hello"}, expected="hello")

As a pytest plug-in, with one test for each case and check:

    pytest_plugins = ["agent_tools.contract"]

    CASES = [ToolCase(my_tool, {"path": "a.txt"}, files={"a.txt": "hello"})]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_my_tools_keep_the_contract(case, tool_check):
        tool_check(case)

Every check makes a tool of its own in a folder of its own. Not for Windows. (PYTEST_DONT_REWRITE: nothing
here asserts, and a test module imports this one before it names it as a plug-in.)
"""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_tools.contract.answers import Broken, check_answer, check_schema
from agent_tools.contract.processes import children, wait_gone

THREADS = 8
DEADLINE = 20.0  # seconds for a call that should take none; only tells hanging from working
SETTLED = 0.3  # seconds after which a slow call counts as under way

Arguments = Mapping[str, Any]


class ContractError(AssertionError):
    """A tool broke the contract; the text lists each broken promise."""


class NotApplicable(Exception):
    """A check lacks what it needs to know of the tool; the text says what to give."""


@dataclass(frozen=True, slots=True)
class ToolCase:
    """What the checks have to know of a tool.

    `make(root)` gives a fresh tool that works in the folder `root`, where `files` are laid out. `arguments`
    are good ones, `expected` a text their answer holds; either may be a function of the call's number (0 to
    7), for a tool that can't do the same thing twice. `slow` are arguments of a call that runs for half a
    minute unless it is cancelled, `large` those of one that has far more to say than it may. `failures` are
    exceptions that a framework takes as a failed call. `max_bytes` bounds the text of an answer, `grace`
    (seconds) the time from a cancellation to the answer.
    """

    make: Callable[[Path], Any]
    arguments: Arguments | Callable[[int], Arguments] | None = None
    expected: str | Callable[[int], str] = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    slow: Arguments | None = None
    large: Arguments | None = None
    failures: tuple[type[Exception], ...] = ()
    max_bytes: int = 64 * 1024
    grace: float = 1.0
    name: str = ""

    def __str__(self) -> str:
        return self.name or getattr(self.make, "__name__", "tool").removesuffix("_tool")

    def good(self, number: int) -> dict[str, Any]:
        if self.arguments is None:
            raise NotApplicable("give `arguments` that a call succeeds with")
        return dict(self.arguments(number) if callable(self.arguments) else self.arguments)

    def hint(self, number: int) -> str:
        return self.expected(number) if callable(self.expected) else self.expected


class Cancel(threading.Event):
    """The stop signal the checks hand to a tool: an Event that can also call back."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""
        self._calls: list[Callable[[], object]] = []

    def on_cancel(self, call: Callable[[], object]) -> Callable[[], None]:
        self._calls.append(call)
        return lambda: self._calls.remove(call)

    def set(self) -> None:
        super().set()
        for call in list(self._calls):
            call()


@dataclass(slots=True)
class CallContext:
    """The context the checks call a tool with."""

    tool_call_id: str = "call-1"
    cancel: Cancel = field(default_factory=Cancel)
    run: Any = None
    journal: Any = None

    def update(self, partial: Any) -> None:
        """Progress is welcome and ignored."""


class Call:
    """One call on a thread of its own; `finish` gives the answer or raises what went wrong."""

    def __init__(
        self, case: ToolCase, tool: Any, arguments: Arguments, context: CallContext | None = None
    ) -> None:
        self.context = context or CallContext()
        self.shown = _shown(arguments)
        self._case = case
        self._tool = tool
        self._arguments = arguments
        self._answer: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tool-contract", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._tool.execute(self._arguments, self.context)
        except BaseException as error:
            self._error = error

    def under_way(self, seconds: float) -> bool:
        """Whether it still runs after that time."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def finish(self, seconds: float = DEADLINE) -> tuple[str, bool]:
        """The text of the answer and whether it is an error, once the answer has been checked."""
        if self.under_way(seconds):
            raise Broken(f"no answer within {seconds:g} s to {self.shown}")
        if isinstance(self._error, self._case.failures):
            return str(self._error), True
        if self._error is not None:
            raise Broken(f"{type(self._error).__name__} instead of an answer to {self.shown}: {self._error}")
        try:
            return check_answer(self._answer, self._case.max_bytes)
        except Broken as broken:
            raise Broken(f"{broken} (answer to {self.shown})") from None


def _shown(arguments: Arguments) -> str:
    text = ascii(arguments)
    return text if len(text) <= 120 else text[:120] + "..."


# The checks


def well_formed_schema(case: ToolCase, root: Path) -> None:
    """Name, description and JSON Schema are what every provider accepts."""
    check_schema(case.make(root))


def stable_schema(case: ToolCase, root: Path) -> None:
    """Two tools made alike tell a model the same, byte for byte, also after a call: caches rely on it."""

    def told(tool: Any) -> str:
        return json.dumps([tool.name, tool.description, tool.parameters])

    tool = case.make(root)
    before = told(tool)
    if told(case.make(root)) != before:
        raise Broken("a second tool made alike has another name, description or schema")
    Call(case, tool, {}).finish()
    if told(tool) != before:
        raise Broken("a call changed the tool's name, description or schema")


def answers_good_arguments(case: ToolCase, root: Path) -> None:
    """A good call succeeds, says what is expected of it and leaves its arguments alone."""
    arguments = case.good(0)
    kept = copy.deepcopy(arguments)
    _expect_success(case, Call(case, case.make(root), arguments), 0)
    if arguments != kept:
        raise Broken(f"the call changed its arguments from {_shown(kept)} to {_shown(arguments)}")


def answers_missing_arguments(case: ToolCase, root: Path) -> None:
    """A call that lacks a required argument gets an error that names it."""
    tool = case.make(root)
    required = list(tool.parameters.get("required", ()))
    base = {} if case.arguments is None else case.good(0)
    for name in required:
        text, is_error = Call(case, tool, {key: item for key, item in base.items() if key != name}).finish()
        if not is_error:
            raise Broken(f"a call without the required {name} succeeded")
        if case.arguments is not None and name not in text:
            raise Broken(f"the error for a missing {name} does not name it: {text[:200]}")
    Call(case, tool, {}).finish()


def answers_bad_arguments(case: ToolCase, root: Path) -> None:
    """Wrong kinds, absurd values and unknown names get an answer, never an exception, an echo or a hang."""
    tool = case.make(root)
    base = {} if case.arguments is None else case.good(0)
    for name in tool.parameters["properties"]:
        for value in _bad_values():
            Call(case, tool, {**base, name: value}).finish()
    Call(case, tool, {**base, "no_such_argument": 1}).finish()


def answers_eight_threads(case: ToolCase, root: Path) -> None:
    """Eight calls of one tool at once each get the answer that is theirs."""
    tool = case.make(root)
    starting = threading.Barrier(THREADS)

    class Together:
        def execute(self, arguments: Arguments, context: Any) -> Any:
            starting.wait(DEADLINE)
            return tool.execute(arguments, context)

    calls = [Call(case, Together(), case.good(number)) for number in range(THREADS)]
    for number, call in enumerate(calls):
        _expect_success(case, call, number)


def leaves_nothing_running(case: ToolCase, root: Path) -> None:
    """After the answer no thread and no child process of the call is left."""
    threads, processes = set(threading.enumerate()), children()
    Call(case, case.make(root), case.good(0)).finish()
    _expect_gone(threads, processes, case.grace)


def starts_nothing_when_cancelled(case: ToolCase, root: Path) -> None:
    """A call that is cancelled before it starts changes no file."""
    tool, before = case.make(root), _files(root)
    context = CallContext()
    context.cancel.set()
    Call(case, tool, case.good(0), context).finish(case.grace)
    if _files(root) != before:
        raise Broken("a call that was cancelled before it started changed files")


def ends_when_cancelled(case: ToolCase, root: Path) -> None:
    """A cancelled call answers at once, as an error, and every process it started is gone."""
    if case.slow is None:
        raise NotApplicable("give `slow` arguments of a call that takes half a minute")
    threads, processes = set(threading.enumerate()), children()
    call = Call(case, case.make(root), case.slow)
    if not call.under_way(SETTLED):
        text, _ = call.finish()
        raise Broken(f"the slow call was over in {SETTLED} s, so it proves nothing: {text[:200]}")
    started = children() - processes
    call.context.cancel.reason = "stopped"
    call.context.cancel.set()
    _, is_error = call.finish(case.grace)
    if not is_error:
        raise Broken("the cancelled call answered as if it had succeeded")
    left = wait_gone(started, case.grace)
    if left:
        raise Broken(f"processes outlived the cancelled call: {sorted(left)}")
    _expect_gone(threads, processes, case.grace)


def bounds_its_output(case: ToolCase, root: Path) -> None:
    """However much there is to say, the answer keeps to its limit."""
    if case.large is None:
        raise NotApplicable("give `large` arguments of a call with far too much to say")
    text, _ = Call(case, case.make(root), case.large).finish()
    if len(text.encode()) < case.max_bytes // 8:
        raise Broken(
            f"the large call said only {len(text.encode())} bytes, so it proves nothing: {text[:200]}"
        )


CHECKS: tuple[Callable[[ToolCase, Path], None], ...] = (
    well_formed_schema,
    stable_schema,
    answers_good_arguments,
    answers_missing_arguments,
    answers_bad_arguments,
    answers_eight_threads,
    leaves_nothing_running,
    starts_nothing_when_cancelled,
    ends_when_cancelled,
    bounds_its_output,
)


def _bad_values() -> Sequence[Any]:
    """Values that models really send, and some that only an attacker would."""
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    return (
        None, True, 0, -1, 10**30, 1.5, 1e308, float("nan"), float("-inf"),
        "", " ", "3", "null", "a\0b", "\ud800", "no/such/place", "x" * 100_000, "\u202e\x1b[2J", "-", "(",
        "[", "\\", [], [None], ["a", 1], {}, {"a": {"b": 1}}, deep,
    )  # fmt: skip


def _expect_success(case: ToolCase, call: Call, number: int) -> None:
    text, is_error = call.finish()
    if is_error:
        raise Broken(f"a good call failed: {call.shown} -> {text[:400]}")
    if case.hint(number) not in text:
        raise Broken(f"the answer to {call.shown} does not hold {case.hint(number)!r}: {text[:400]}")


def _expect_gone(threads: set[threading.Thread], processes: set[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while (left := set(threading.enumerate()) - threads) and time.monotonic() < deadline:
        pause.wait(0.01)
    if left:
        raise Broken(f"threads are left running: {sorted(thread.name for thread in left)}")
    if alive := wait_gone(children() - processes, seconds):
        raise Broken(f"child processes are left running: {sorted(alive)}")


def _files(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


# Running them


@contextlib.contextmanager
def _laid_out(case: ToolCase) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tool-contract-") as folder:
        root = Path(folder).resolve()
        for name, content in case.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        yield root


def run_check(check: Callable[[ToolCase, Path], None], case: ToolCase) -> None:
    """Run one of `CHECKS`; raises `ContractError`, or `NotApplicable` when the case says too little."""
    with _laid_out(case) as root:
        try:
            check(case, root)
        except Broken as broken:
            raise ContractError(f"{case}: {check.__name__}: {broken}") from None


def check_tool(
    make: Callable[[Path], Any], arguments: Arguments | Callable[[int], Arguments] | None = None, **more: Any
) -> list[str]:
    """Run every check; the names of those that applied. `more` are the fields of `ToolCase`.

    Raises `ContractError` with all broken promises, not only the first.
    """
    case = ToolCase(make, arguments, **more)
    applied, broken = [], []
    for check in CHECKS:
        try:
            run_check(check, case)
        except NotApplicable:
            continue
        except ContractError as error:
            broken.append(str(error))
        applied.append(check.__name__)
    if broken:
        raise ContractError("\n".join(broken))
    return applied


def pytest_generate_tests(metafunc: Any) -> None:
    """Give a test that asks for `tool_check` one run for each check."""
    if "tool_check" in metafunc.fixturenames:
        metafunc.parametrize(
            "tool_check", [_or_skip(check) for check in CHECKS], ids=[check.__name__ for check in CHECKS]
        )


def _or_skip(check: Callable[[ToolCase, Path], None]) -> Callable[[ToolCase], None]:
    def tool_check(case: ToolCase) -> None:
        try:
            run_check(check, case)
        except NotApplicable as reason:
            import pytest

            pytest.skip(str(reason))

    return tool_check
