"""Checks that a tool, from this toolbox or your own, keeps the contract that agents rely on.

A tool is an object with `name`, `description`, `parameters` and `execute(arguments, context)`. As a function:

    check_tool(lambda root: my_tool(root), {"path": "a.txt"}, files={"a.txt": "hello"}, expected="hello")

As a pytest plug-in, with one test for each case and check:

    pytest_plugins = ["agent_tools.contract"]

    CASES = [ToolCase(my_tool, {"path": "a.txt"}, files={"a.txt": "hello"})]

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_my_tools_keep_the_contract(case, tool_check):
        tool_check(case)

Every check builds its own tool in its own folder. Not for Windows. (PYTEST_DONT_REWRITE: this module holds no
assertions, and test modules import it before pytest loads it as a plug-in.)
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_tools.contract.answers import ContractViolation, check_result, check_schema
from agent_tools.contract.processes import children, wait_gone
from agent_tools.tool import AnyTool, JsonMapping, JsonObject, ToolFailure

THREADS = 8
DEADLINE = 20.0  # seconds after which a fast call counts as hanging
SETTLED = 0.3  # seconds after which a slow call counts as running

Arguments = JsonMapping


class ContractError(AssertionError):
    """A tool breaks the contract; the text lists each violation."""


class NotApplicable(Exception):
    """The case lacks a field that the check needs; the text names it."""


@dataclass(frozen=True, slots=True)
class ToolCase:
    """The tool to check, and calls of it whose outcome is known.

    `make(root)` returns a new tool that works in the folder `root`, which holds `files`. `arguments` are
    valid and `expected` a text in their result; each may be a function of the call's number (0 to 7), for a
    tool that cannot do the same thing twice. `slow` are the arguments of a call that runs for half a minute
    unless it is cancelled, `large` those of a call whose output is far over its limit. `failures` are
    exceptions that the framework treats as a failed call. `max_bytes` bounds the text of a result, `grace`
    (seconds) the time from a cancellation to the result.
    """

    make: Callable[[Path], AnyTool]
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

    def valid_arguments(self, number: int) -> JsonObject:
        """The arguments of call `number`; raises `NotApplicable` when the case has none."""
        if self.arguments is None:
            raise NotApplicable("give valid `arguments`")
        return dict(self.arguments(number) if callable(self.arguments) else self.arguments)

    def expected_text(self, number: int) -> str:
        """A text that the result of call `number` holds."""
        return self.expected(number) if callable(self.expected) else self.expected


class Cancel(threading.Event):
    """The cancel token of a checked call: an Event with callbacks."""

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
    """The context of a checked call."""

    tool_call_id: str = "call-1"
    cancel: Cancel = field(default_factory=Cancel)
    run: Any = None
    journal: Any = None

    def update(self, partial: Any) -> None:
        """Accept and ignore progress."""


class Call:
    """One call, running on its own thread; `finish` returns its checked result."""

    def __init__(
        self, case: ToolCase, tool: AnyTool, arguments: Arguments, context: CallContext | None = None
    ) -> None:
        self.context = context or CallContext()
        self.shown = _shown(arguments)
        self._case = case
        self._tool = tool
        self._arguments = arguments
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tool-contract", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._tool.execute(self._arguments, self.context)
        except BaseException as error:
            self._error = error

    def is_running_after(self, seconds: float) -> bool:
        """Wait for at most `seconds`; True when the call still runs then."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def finish(self, seconds: float = DEADLINE) -> tuple[str, bool]:
        """Wait for the result, check it, and return its text and whether it is an error."""
        if self.is_running_after(seconds):
            raise ContractViolation(f"no result within {seconds:g} s for {self.shown}")
        if isinstance(self._error, self._case.failures):
            return str(self._error), True
        if self._error is not None:
            raise ContractViolation(
                f"{type(self._error).__name__} instead of a result for {self.shown}: {self._error}"
            )
        try:
            return check_result(self._result, self._case.max_bytes)
        except ContractViolation as violation:
            raise ContractViolation(f"{violation} (result of {self.shown})") from None


def _shown(arguments: Arguments) -> str:
    text = ascii(arguments)
    return text if len(text) <= 120 else text[:120] + "..."


# The checks


def well_formed_schema(case: ToolCase, root: Path) -> None:
    """Every provider accepts the name, the description and the JSON Schema."""
    check_schema(case.make(root))


def stable_schema(case: ToolCase, root: Path) -> None:
    """Two tools made alike have the same definition, byte for byte, also after a call, for prompt caches."""

    def definition(tool: AnyTool) -> str:
        return json.dumps([tool.name, tool.description, tool.parameters])

    tool = case.make(root)
    before = definition(tool)
    if definition(case.make(root)) != before:
        raise ContractViolation("a second tool made alike has another name, description or schema")
    Call(case, tool, {}).finish()
    if definition(tool) != before:
        raise ContractViolation("a call changed the tool's name, description or schema")


def answers_good_arguments(case: ToolCase, root: Path) -> None:
    """A valid call succeeds, returns the expected text and does not change its arguments."""
    arguments = case.valid_arguments(0)
    kept = copy.deepcopy(arguments)
    _expect_success(case, Call(case, case.make(root), arguments), 0)
    if arguments != kept:
        raise ContractViolation(f"the call changed its arguments from {_shown(kept)} to {_shown(arguments)}")


def answers_missing_arguments(case: ToolCase, root: Path) -> None:
    """A call without a required argument returns an error that names it."""
    tool = case.make(root)
    required = list(tool.parameters.get("required", ()))
    base = {} if case.arguments is None else case.valid_arguments(0)
    for name in required:
        text, is_error = Call(case, tool, {key: item for key, item in base.items() if key != name}).finish()
        if not is_error:
            raise ContractViolation(f"a call without the required {name} succeeded")
        if case.arguments is not None and name not in text:
            raise ContractViolation(f"the error for a missing {name} does not name it: {text[:200]}")
    Call(case, tool, {}).finish()


def answers_bad_arguments(case: ToolCase, root: Path) -> None:
    """Wrong types, absurd values and unknown names get a bounded result: no exception, no hang."""
    tool = case.make(root)
    base = {} if case.arguments is None else case.valid_arguments(0)
    for name in tool.parameters["properties"]:
        for value in _bad_values():
            Call(case, tool, {**base, name: value}).finish()
    Call(case, tool, {**base, "no_such_argument": 1}).finish()


def answers_eight_threads(case: ToolCase, root: Path) -> None:
    """Eight concurrent calls of one tool each get their own result."""
    tool = case.make(root)
    starting = threading.Barrier(THREADS)

    class Synchronized:
        name, description, parameters = tool.name, tool.description, tool.parameters

        def execute(self, arguments: Arguments, context: Any = None, /) -> Any:
            starting.wait(DEADLINE)
            return tool.execute(arguments, context)

    calls = [Call(case, Synchronized(), case.valid_arguments(number)) for number in range(THREADS)]
    for number, call in enumerate(calls):
        _expect_success(case, call, number)


def leaves_nothing_running(case: ToolCase, root: Path) -> None:
    """After the result no thread and no child process of the call is left."""
    threads, processes = set(threading.enumerate()), children()
    Call(case, case.make(root), case.valid_arguments(0)).finish()
    _expect_gone(threads, processes, case.grace)


def starts_nothing_when_cancelled(case: ToolCase, root: Path) -> None:
    """A call that is cancelled before it starts changes no file."""
    tool, before = case.make(root), _files(root)
    context = CallContext()
    context.cancel.set()
    Call(case, tool, case.valid_arguments(0), context).finish(case.grace)
    if _files(root) != before:
        raise ContractViolation("a call that was cancelled before it started changed files")


def ends_when_cancelled(case: ToolCase, root: Path) -> None:
    """A cancelled call returns an error at once, and every process it started is gone."""
    if case.slow is None:
        raise NotApplicable("give `slow` arguments of a call that takes half a minute")
    threads, processes = set(threading.enumerate()), children()
    call = Call(case, case.make(root), case.slow)
    if not call.is_running_after(SETTLED):
        text, _ = call.finish()
        raise ContractViolation(
            f"the slow call took less than {SETTLED} s, which proves nothing: {text[:200]}"
        )
    started = children() - processes
    call.context.cancel.reason = "stopped"
    call.context.cancel.set()
    _, is_error = call.finish(case.grace)
    if not is_error:
        raise ContractViolation("the cancelled call returned success")
    left = wait_gone(started, case.grace)
    if left:
        raise ContractViolation(f"processes outlived the cancelled call: {sorted(left)}")
    _expect_gone(threads, processes, case.grace)


def bounds_its_output(case: ToolCase, root: Path) -> None:
    """The text of a result keeps its limit, however much output there is."""
    if case.large is None:
        raise NotApplicable("give `large` arguments, of a call whose output is far over the limit")
    text, _ = Call(case, case.make(root), case.large).finish()
    if len(text.encode()) < case.max_bytes // 8:
        raise ContractViolation(
            f"the large call returned only {len(text.encode())} bytes, which proves nothing: {text[:200]}"
        )


def declares_its_paths(case: ToolCase, root: Path) -> None:
    """`paths`, by which permissions are judged, names every file that a call changes, and changes none."""
    tool = case.make(root)
    paths = getattr(tool, "paths", None)
    if paths is None:
        raise NotApplicable("the tool has no method `paths`")
    arguments, before = case.valid_arguments(0), _files(root)
    uses = paths(arguments)
    if _files(root) != before:
        raise ContractViolation("paths changed files")
    for use in uses or ():
        if not (os.path.isabs(use.path) and use.real == os.path.realpath(use.real)):
            raise ContractViolation(f"paths returned {use!r}, which is not absolute or not resolved")
    base = case.valid_arguments(0)
    for name in tool.parameters["properties"]:
        for value in _bad_values():
            with contextlib.suppress(ToolFailure, *case.failures):
                paths({**base, name: value})
    Call(case, tool, arguments).finish()
    after = _files(root)
    written = [use.real for use in uses or () if use.is_written]
    for path in sorted({path for path in {*before, *after} if before.get(path, 0) != after.get(path, 0)}):
        is_new_folder = os.path.isdir(path) and any(real.startswith(path + os.sep) for real in written)
        if uses is not None and not is_new_folder and os.path.realpath(path) not in written:
            raise ContractViolation(f"a call changed {path}, which paths does not name as written: {uses!r}")


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
    declares_its_paths,
)


def _bad_values() -> Sequence[Any]:
    """Values that models send by mistake, and some that only an attacker would send."""
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
        raise ContractViolation(f"a valid call failed: {call.shown} -> {text[:400]}")
    if case.expected_text(number) not in text:
        raise ContractViolation(
            f"the result of {call.shown} does not hold {case.expected_text(number)!r}: {text[:400]}"
        )


def _expect_gone(threads: set[threading.Thread], processes: set[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while (left := set(threading.enumerate()) - threads) and time.monotonic() < deadline:
        pause.wait(0.01)
    if left:
        raise ContractViolation(f"threads are left running: {sorted(thread.name for thread in left)}")
    if alive := wait_gone(children() - processes, seconds):
        raise ContractViolation(f"child processes are left running: {sorted(alive)}")


def _files(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


# Running the checks


@contextlib.contextmanager
def _case_folder(case: ToolCase) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tool-contract-") as folder:
        root = Path(folder).resolve()
        for name, content in case.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        yield root


def run_check(check: Callable[[ToolCase, Path], None], case: ToolCase) -> None:
    """Run one of `CHECKS`; raises `ContractError`, or `NotApplicable` when the case lacks what it needs."""
    with _case_folder(case) as root:
        try:
            check(case, root)
        except ContractViolation as violation:
            raise ContractError(f"{case}: {check.__name__}: {violation}") from None


def check_tool(
    make: Callable[[Path], AnyTool],
    arguments: Arguments | Callable[[int], Arguments] | None = None,
    **fields: Any,
) -> list[str]:
    """Run every check and return the names of those that applied. `fields` are those of `ToolCase`.

    Raises `ContractError` with all violations, not only the first.
    """
    case = ToolCase(make, arguments, **fields)
    applied, violations = [], []
    for check in CHECKS:
        try:
            run_check(check, case)
        except NotApplicable:
            continue
        except ContractError as error:
            violations.append(str(error))
        applied.append(check.__name__)
    if violations:
        raise ContractError("\n".join(violations))
    return applied


def pytest_generate_tests(metafunc: Any) -> None:
    """Parametrize a test that takes `tool_check` over all checks."""
    if "tool_check" in metafunc.fixturenames:
        metafunc.parametrize(
            "tool_check", [_skipping(check) for check in CHECKS], ids=[check.__name__ for check in CHECKS]
        )


def _skipping(check: Callable[[ToolCase, Path], None]) -> Callable[[ToolCase], None]:
    def tool_check(case: ToolCase) -> None:
        try:
            run_check(check, case)
        except NotApplicable as reason:
            import pytest

            pytest.skip(str(reason))

    return tool_check
