"""Patterns: the dialect, and the error for a mistake."""

from __future__ import annotations

import pytest

from agent_tools.search.pattern import Pattern, compile_pattern
from agent_tools.tool import ToolFailure


def regular(source: str, ignore_case: bool = False) -> Pattern:
    return compile_pattern(source, False, ignore_case)


def finds(source: str, line: str) -> bool:
    return regular(source).expression.search(line) is not None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("interface{}", "var x interface{}"),
        ("${e}", "no dollar at an end"),
        (r"\$\{e\}", "x ${e}"),
        ("{", "if {"),
        ("a{2,3}b", "aab"),
        ("a{,2}b", "b"),
        (r"\x{e9}", "é"),
        (r"\p{Greek}+", "αβ"),
        ("[[:alpha:]]", "1a"),
        (r"(?i)foo", "FOO"),
        (r"(?<!x)y", "y"),
        (r"(a)\1", "aa"),
        (r"a++b", "aab"),
        ("[{}]", "{"),
        (r"a\{2\}", "a{2}"),
    ],
)
def test_the_dialect(source: str, line: str) -> None:
    assert finds(source, line) is (source != "${e}")


def test_braces_never_mean_a_fuzzy_match() -> None:
    assert not finds("foo{e}", "fox")
    assert not finds("foo{e<=1}", "fox")
    assert finds("foo{e<=1}", "foo{e<=1}")


@pytest.mark.parametrize("source", ["foo(", "a)", "[a", "*a", "a**", r"\Q", "(?P<a"])
def test_a_mistake_is_explained_with_a_way_out(source: str) -> None:
    """G01"""
    with pytest.raises(ToolFailure, match="invalid regex") as failure:
        regular(source)
    assert "literal=true" in str(failure.value)


@pytest.mark.parametrize(
    ("source", "itself"),
    [("foo", True), ("foo.bar", True), ("foo(bar)", False), ("a+b", False), ("^a", False), ("x*", False)],
)
def test_it_is_known_whether_a_pattern_finds_its_own_text(source: str, itself: bool) -> None:
    assert regular(source).finds_itself is itself
    assert compile_pattern(source, True, False).finds_itself
