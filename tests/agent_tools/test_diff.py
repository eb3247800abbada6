"""diff: what changed, in rows that are right and few, and soon."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_tools.diff import generate_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)


def rows(old: str, new: str, context: int = 4) -> list[str]:
    return generate_diff(old, new, context).text.split("\n")


def lines(text: str) -> list[str]:
    pieces = text.split("\n")
    return pieces if pieces[-1] else pieces[:-1]


def rebuilt(old: str, new: str) -> tuple[list[str], list[str]]:
    """Both texts read back from a diff without gaps."""
    before, after = [], []
    for row in rows(old, new, context=10_000):
        if row[:1] in ("", "\\"):
            continue
        text = row[1:].lstrip(" ").lstrip("0123456789")[1:]
        if row[0] != "+":
            before.append(text)
        if row[0] != "-":
            after.append(text)
    return before, after


def test_a_changed_line_shows_its_removal_first() -> None:
    diff = generate_diff("l1\nl2\nl3\nl4\n", "l1\nl2\nX\nl4\n")
    assert diff.text == " 1 l1\n 2 l2\n-3 l3\n+3 X\n 4 l4"
    assert (diff.first_changed_line, diff.added, diff.removed) == (3, 1, 1)


def test_equal_texts_have_no_diff() -> None:
    assert generate_diff("a\n", "a\n") == generate_diff("", "")
    assert (generate_diff("a\n", "a\n").text, generate_diff("a", "a").first_changed_line) == ("", None)


def test_inserted_lines_are_numbered_as_in_the_new_text() -> None:
    assert rows("a\nb\n", "a\nx\ny\nb\n") == [" 1 a", "+2 x", "+3 y", " 2 b"]


def test_removed_lines_are_numbered_as_in_the_old_text() -> None:
    diff = generate_diff("a\nx\ny\nb\n", "a\nb\n")
    assert diff.text == " 1 a\n-2 x\n-3 y\n 4 b"
    assert diff.first_changed_line == 2


def test_a_text_from_nothing_and_back() -> None:
    assert rows("", "a\nb\n") == ["+1 a", "+2 b"]
    assert rows("a\nb\n", "") == ["-1 a", "-2 b"]
    assert generate_diff("", "a\n").first_changed_line == 1
    assert generate_diff("a\n", "").first_changed_line == 1


def test_a_missing_final_newline_is_named_in_one_change() -> None:
    """E25"""
    assert rows("a\nb", "a\nb\n") == [" 1 a", "-2 b", "\\ No newline at end of file", "+2 b"]
    assert rows("a\nb\n", "a\nb") == [" 1 a", "-2 b", "+2 b", "\\ No newline at end of file"]


def test_a_changed_last_line_makes_no_further_row() -> None:
    """E25"""
    assert rows("a\nb\n", "a\nB\n") == [" 1 a", "-2 b", "+2 B"]
    assert rows("a\nb", "a\nB") == [" 1 a", "-2 b", "+2 B"]


def test_blank_lines_at_the_end_count() -> None:
    assert rows("a\n", "a\n\n") == [" 1 a", "+2 "]


def test_lines_out_of_sight_become_one_row_on_either_side() -> None:
    old = "".join(f"{n}\n" for n in range(1, 21))
    shown = rows(old, old.replace("10\n", "x\n"), context=2)
    assert shown == ["    ...", "  8 8", "  9 9", "-10 10", "+10 x", " 11 11", " 12 12", "    ..."]


def test_the_stretch_between_two_changes_is_cut_where_it_is_long() -> None:
    old = [str(n) for n in range(1, 31)]
    new = ["x" if n in ("5", "18") else n for n in old]
    shown = rows("\n".join(old), "\n".join(new))
    assert shown.count("    ...") == 2
    assert shown[6:16] == [
        "  6 6",
        "  7 7",
        "  8 8",
        "  9 9",
        "    ...",
        " 14 14",
        " 15 15",
        " 16 16",
        " 17 17",
        "-18 18",
    ]


@pytest.mark.parametrize(("count", "width"), [(9, 1), (10, 2), (99, 2), (100, 3)])
def test_numbers_are_as_wide_as_the_largest(count: int, width: int) -> None:
    old = "".join(f"{n}\n" for n in range(count))
    assert rows(old, "x\n" + old[2:])[0] == f"-{1:>{width}} 0"


def test_a_context_of_zero_or_less_means_four() -> None:
    old = "".join(f"{n}\n" for n in range(9))
    assert rows(old, old.replace("8", "x"), 0) == rows(old, old.replace("8", "x"), 4)


def test_repeated_lines_at_both_ends_are_not_taken_twice() -> None:
    assert rows("a\na\na\n", "a\na\n") == [" 1 a", " 2 a", "-3 a"]
    assert rows("a\na\n", "a\na\na\n") == [" 1 a", " 2 a", "+3 a"]


def test_one_change_in_many_lines_is_one_change() -> None:
    old = [f"line {n}" for n in range(3200)]
    new = [*old[:1600], "changed", *old[1601:]]
    diff = generate_diff("\n".join(old), "\n".join(new))
    assert (diff.first_changed_line, diff.added, diff.removed) == (1601, 1, 1)


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_back_from_their_diff(old: str, new: str) -> None:
    if old != new:
        assert rebuilt(old, new) == (lines(old), lines(new))


def shortest(old: list[str], new: list[str]) -> int:
    """The least number of changed lines, by the textbook table."""
    above = list(range(len(new) + 1))
    for i, line in enumerate(old, 1):
        here = [i]
        for j, other in enumerate(new, 1):
            here.append(above[j - 1] if line == other else min(above[j], here[-1]) + 1)
        above = here
    return above[-1]


@given(st.lists(st.sampled_from("aabbccd"), max_size=14), st.lists(st.sampled_from("aabbccd"), max_size=14))
def test_texts_whose_lines_all_repeat_get_a_shortest_diff(old: list[str], new: list[str]) -> None:
    # Doubled lines are no anchors, so that nothing but the greedy search decides.
    old, new = [line for line in old for _ in "12"], [line for line in new for _ in "12"]
    diff = generate_diff("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
    assert diff.added + diff.removed == shortest(old, new)


RANDOM = random.Random(7)
N = 20_000
UNIQUE = [f"line {n}" for n in range(N)]
FEW = [RANDOM.choice(["x", "y", "", "}"]) for _ in range(N)]
HARD = {
    "nothing in common": (UNIQUE, ["x" + line for line in UNIQUE]),
    "shuffled": (UNIQUE, RANDOM.sample(UNIQUE, N)),
    "four lines at random": (FEW, RANDOM.sample(FEW, N)),
    "four lines edited": (FEW, [line for line in FEW if RANDOM.random() > 0.05]),
    "a period and its change": (
        ["x", "y"] * (N // 2),
        ["z" if n % 10 == 0 else "xy"[n % 2] for n in range(N)],
    ),
    "a period turned": (["a", "b", "c"] * (N // 3), ["a", "c", "b"] * (N // 3)),
    "runs against a period": (["x"] * (N // 2) + ["y"] * (N // 2), ["y", "x"] * (N // 2)),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.timeout(20)
def test_twenty_thousand_lines_of_any_kind_do_not_hang(name: str) -> None:
    old, new = HARD[name]
    diff = generate_diff("\n".join(old), "\n".join(new))
    assert len(old) - diff.removed == len(new) - diff.added


def test_a_few_edits_among_repeated_lines_stay_a_few() -> None:
    old = ["x", "y"] * (N // 2)
    new = list(old)
    for place in range(100, N, 1000):
        new[place] = "z"
    diff = generate_diff("\n".join(old), "\n".join(new))
    assert (diff.added, diff.removed) == (20, 20)
