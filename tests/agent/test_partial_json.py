"""Arguments that a model is still writing: what is certain of them, and at last what is wrong with them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rounds import rounds

from agent.partial_json import parse_arguments, parse_partial_object

keys = st.text(max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.text('\\"/\n\t\x00é\u2028😀', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)
objects = st.dictionaries(keys, values, max_size=5)
# Texts that look like JSON and are none: odd mixes of its own words.
scraps = st.lists(
    st.sampled_from(
        '{ } [ ] : , " \\ \\u \\ud83d \\u00 \\" "a" "b":1 1 -1. 1e5 tru true null nul x é \n'.split(" ")
    ),
    max_size=30,
).map("".join)


def is_part_of(part: Any, whole: Any) -> bool:
    """True when nothing in `part` is other than in `whole`: only ends may be missing."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            k in whole and is_part_of(v, whole[k]) for k, v in part.items()
        )
    if isinstance(part, list):
        if not isinstance(whole, list) or len(part) > len(whole):
            return False
        return all(is_part_of(p, w) for p, w in zip(part, whole, strict=False))
    if isinstance(part, str):
        return isinstance(whole, str) and whole.startswith(part)
    return type(part) is type(whole) and part == whole


def prefixes(text: str, step: int = 1) -> Iterator[str]:
    return (text[:end] for end in range(0, len(text) + 1, step))


@settings(deadline=None, max_examples=rounds(60))
@given(objects, st.booleans(), st.sampled_from([None, 1]))
def test_every_prefix_keeps_only_values_of_the_whole_text_and_never_shrinks(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    whole = json.loads(text)
    before: dict[str, Any] = {}
    for prefix in prefixes(text, step=1 + len(text) // 150):
        part = parse_partial_object(prefix)
        assert is_part_of(part, whole), prefix
        assert is_part_of(before, part), prefix
        before = part
    assert parse_partial_object(text) == whole
    assert parse_arguments(text) == (whole, "")


@settings(deadline=None)
@given(st.text() | scraps)
def test_no_text_makes_it_raise_or_forget(text: str) -> None:
    before: dict[str, Any] = {}
    for prefix in prefixes(text):
        part = parse_partial_object(prefix)
        assert isinstance(part, dict)
        # A key that comes twice takes its second value: that is no loss.
        assert set(before) <= set(part), prefix
        before = part
    arguments, problem = parse_arguments(text)
    assert isinstance(arguments, dict)
    assert isinstance(problem, str)


@settings(deadline=None)
@given(objects, st.text(max_size=5))
def test_what_follows_the_object_changes_nothing(value: dict[str, Any], rest: str) -> None:
    assert parse_partial_object(json.dumps(value) + rest) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("  ", {}),
        ("{", {}),
        ('{"a":{"b":"c"', {"a": {"b": "c"}}),
        ('{"path":"foo', {"path": "foo"}),
        ('{"path":"foo.txt",', {"path": "foo.txt"}),
        ('{"text":"hello \\"world', {"text": 'hello "world'}),
        ('{"a":"x\\"y",', {"a": 'x"y'}),
        ('{"name":"test","val', {"name": "test"}),
        ('{"name":"test","val"', {"name": "test"}),
        ('{"name":"test","val":', {"name": "test"}),
        ("}}}", {}),
        ("]]]", {}),
        ("[1, 2", {}),
        ("123", {}),
        ("null", {}),
        ('"text"', {}),
        ("{,,,,}", {}),
        ('{"key":}', {}),
        ('{"a": tru', {}),
        ('{"a": true', {}),
        ('{"a": true}', {"a": True}),
        ('{"a": 1, "b": 12', {"a": 1}),
        ('{"a": 1, "b": 12 ', {"a": 1, "b": 12}),
        ('{"items":["a","b",', {"items": ["a", "b"]}),
        ('{"items":["a","b', {"items": ["a", "b"]}),
        ('{"items":[{"x":1},{"x":', {"items": [{"x": 1}, {}]}),
        ('{"a":"x\\', {"a": "x"}),
        ('{"a":"x\\u00', {"a": "x"}),
        ('{"a":"x\\u00e9', {"a": "xé"}),
        ('{"a":"\\ud83d', {"a": ""}),
        ('{"a":"\\ud83d\\', {"a": ""}),
        ('{"a":"\\ud83d\\ude0', {"a": ""}),
        ('{"a":"\\ud83d\\ude00', {"a": "😀"}),
        ('{"a":"\\ud83dx', {"a": "\ud83dx"}),
        ('{"a":"\\\\\\\\ud83d', {"a": "\\\\ud83d"}),
        ('{"a":"line\n\tfeed', {"a": "line\n\tfeed"}),
        ('{"a": 1, "b": tru, "c": 2}', {"a": 1}),
        ('{"a": "ok", "b": "bad \\x escape", "c": 2}', {"a": "ok", "b": "bad "}),
        ('{"a": 1} and more', {"a": 1}),
        ('\u00a0{"a": 1}', {}),
        ('{"a": ٣, "b": 1}', {}),
        ('{"a": 01}', {}),
        ('{"a": -', {}),
        ('{"a": 1 2 ', {"a": 1}),
        ('{"a":[1,2 3,', {"a": [1, 2]}),
    ],
)
def test_what_is_certain_of_an_unfinished_object(text: str, value: dict[str, Any]) -> None:
    assert parse_partial_object(text) == value


def test_a_backslash_at_the_edge_of_a_delta_loses_nothing() -> None:
    """J06: the view stays, and grows when the escape is whole."""
    deltas = ['{"a":"x', "\\", 'n"}']
    views = [parse_partial_object("".join(deltas[: n + 1])) for n in range(3)]
    assert views == [{"a": "x"}, {"a": "x"}, {"a": "x\n"}]


def test_a_long_cut_string_is_kept() -> None:
    assert parse_partial_object('{"a":"' + "x" * 10_000) == {"a": "x" * 10_000}


def test_deep_nesting_does_not_raise() -> None:
    assert json.dumps(parse_partial_object('{"a":' * 20)) == '{"a": ' * 19 + "{}" + "}" * 19
    for opener in ('{"a":', "["):
        text = '{"a":' + opener * 100_000
        assert isinstance(parse_partial_object(text), dict)
        arguments, problem = parse_arguments(text)
        assert isinstance(arguments, dict)
        assert problem


@pytest.mark.parametrize(
    "piece",
    [
        '"k":"plain text",',
        '"k":"\\\\\\n\\u00e9",',
        '"k":[1,2,3],',
        '"k":{"x":1},',
        '"k":"' + "\\" * 8 + '",',
    ],
)
@pytest.mark.parametrize("end", ["", '"open', '"open\\', "\\x"])
def test_the_work_grows_with_the_length_of_the_text(piece: str, end: str) -> None:
    def cpu(size: int) -> float:
        text = '{"first":"' + "\\n" * (size // 4) + '",' + piece * (size // len(piece)) + '"last":' + end
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            parse_partial_object(text)
            best = min(best, time.process_time() - started)
        return best

    small, large = cpu(20_000), cpu(160_000)
    # Eight times the text: linear work takes eight times as long, quadratic work 64 times.
    assert large < 30 * max(small, 0.001)


def test_one_long_string_is_read_in_linear_time_however_it_ends() -> None:
    for body in ("x" * 1_000_000, "\\n" * 500_000, "\\ud83d\\ude00" * 100_000, '\\"' * 500_000):
        for end in ("", '"', "\\", '\\x"}', '"}'):
            started = time.process_time()
            assert set(parse_partial_object('{"a":"' + body + end)) == {"a"}
            assert time.process_time() - started < 2


# -- the end: what the arguments are ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n", "null", "{}", '""', '"  "', '"null"', '"{}"'])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    """J02: an empty text of arguments means none."""
    assert parse_arguments(text) == ({}, "")


def test_raw_control_characters_inside_strings_are_read() -> None:
    """J07: line feeds and tabs that should have been escaped."""
    text = '{"path":"f","content":"l1\nl2\tx"}'
    assert parse_arguments(text) == ({"path": "f", "content": "l1\nl2\tx"}, "")
    assert parse_partial_object(text) == {"path": "f", "content": "l1\nl2\tx"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[1,2]", "an array"),
        ('"s"', "a string"),
        ("42", "a number"),
        ("1.5", "a number"),
        ("true", "a boolean"),
    ],
)
def test_arguments_that_are_no_object_are_explained(text: str, kind: str) -> None:
    """J09: an array, a string, a number or a boolean."""
    arguments, problem = parse_arguments(text)
    assert arguments == {}
    assert problem == f"the arguments must be a JSON object, got {kind}"


def test_a_large_integer_keeps_every_digit() -> None:
    """J10: beyond 2**53."""
    text = '{"id":12345678901234567890}'
    assert parse_arguments(text) == ({"id": 12345678901234567890}, "")
    assert parse_partial_object(text) == {"id": 12345678901234567890}


def test_an_object_sent_as_a_string_is_unwrapped() -> None:
    """E23: encoded twice, with a real line feed and tab in the inner text."""
    text = '"{\\"path\\":\\"f\\",\\"oldText\\":\\"a\\",\\"newText\\":\\"l1\\nl\\t2\\"}"'
    assert parse_arguments(text) == ({"path": "f", "oldText": "a", "newText": "l1\nl\t2"}, "")
    inner = '{"path":"f","newText":"l1\nl\t2"}'
    assert parse_arguments(json.dumps(inner)) == ({"path": "f", "newText": "l1\nl\t2"}, "")


def test_text_that_is_no_json_says_so_and_keeps_what_could_be_read() -> None:
    arguments, problem = parse_arguments('{"path": "a.txt", "content": "half')
    assert arguments == {"path": "a.txt", "content": "half"}
    assert "not valid JSON" in problem
    assert "cut off" in problem


def test_an_integer_beyond_what_python_converts_does_not_raise() -> None:
    text = '{"a": 1, "n": ' + "9" * 5000 + "}"
    assert isinstance(parse_partial_object(text), dict)
    arguments, problem = parse_arguments(text)
    assert isinstance(arguments, dict)
    assert problem
