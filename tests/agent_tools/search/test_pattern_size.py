"""Expressions that are too large to compile are refused before they are compiled."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from agent_tools import JobTable, bash_tool, grep_tool, jobs_tool
from agent_tools.search.pattern_size import MAX_SIZE, check_size
from agent_tools.tool import ToolFailure

LARGE = [
    "(?:ab|cd){300000}",
    "a{99999999}",
    "(?i)ß{9999999}",
    "[a-z]{5000000}",
    "a{1001}",
    "a{,1001}",
    "a{1001,}",
    "a{٣٠٠٠}",
    "(?:a{200}){200}",
    "(?:(?:(?:a{30}){30}){30}){30}",
    "(?:(a{100}|b)*c){101}",
    "(?P<n>a{200}){200}",
    "(?i:a{200}){200}",
    "(?=a{200}){200}",
    "a{1000}" * 11,
    r"(?:\({200}){200}",
    "(?:[)]{200}){200}",
    "(?:[]a]{200}){200}",
    "(?:[[:alpha:]]{200}){200}",
    r"(?:\p{Lu}{200}){200}",
    "(?:(?:ab){900}(?#(){900}){900}",
    "(?x)(?:(?:ab){900} # (\n){900}",
    "(?ix:(?:ab){900} # (\n){900}",
    "(?V1)(?:[[a](]{900}){900}",
    "k" * 1001,
    r"\." * 1001,
    "(?i)" + "é" * 1001,
]


@pytest.mark.parametrize("expression", LARGE, ids=range(len(LARGE)))
def test_an_expression_that_would_become_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ToolFailure, match=r"shorten|Use \* or \+"):
        check_size(expression)


@pytest.mark.parametrize(
    "expression",
    [
        r"\d{4}-\d{2}-\d{2}",
        "(?:[0-9a-f]{2}:){5}[0-9a-f]{2}",
        r"^.{80,}$",
        r"x{1000}",
        "(a+)+b",
        r"interface\{\}",
        "(?x) a {3} # three",
        "a|" * 1900,
        "(?:" * 1000 + "a" + ")" * 1000,
        "k" * 1000,
        "(",
        "a)",
        "[",
        "a{2}{3}",
    ],
)
def test_everyday_and_invalid_expressions_pass(expression: str) -> None:
    check_size(expression)


@given(
    st.recursive(
        st.sampled_from(["a", ".", r"\d", "[a-z]", "(?:b|c)", r"\{", "[{(]"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.integers(0, 60)).map(lambda both: f"(?:{both[0]}){{{both[1]}}}"),
            st.tuples(inner, st.integers(0, 60)).map(lambda both: f"({both[0]}){{,{both[1]}}}"),
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map("|".join),
            inner.map(lambda text: f"(?#({text.replace(')', '')})"),
        ),
        max_leaves=12,
    )
)
def test_what_passes_compiles_quickly(expression: str) -> None:
    try:
        check_size(expression)
    except ToolFailure:
        return
    start = time.thread_time()
    with contextlib.suppress(regex.error):
        regex.compile(expression, regex.VERSION0, cache_pattern=False)
    assert time.thread_time() - start < 2


@pytest.mark.parametrize("expression", LARGE[:5])
def test_grep_and_jobs_refuse_them(expression: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("abcd" * 1000)
    table = JobTable()
    bash_tool(tmp_path, jobs=table).run(command="sleep 60", background=True)

    for result in (
        grep_tool(tmp_path).run(pattern=expression),
        jobs_tool(table).run(action="wait", id="job-1", pattern=expression),
    ):
        assert result.is_error
        assert "Use * or + instead" in result.text
    table.close()


def test_the_limit_counts_written_out_repetitions() -> None:
    check_size(f"(?:ab){{{MAX_SIZE // 20}}}" * 2)
