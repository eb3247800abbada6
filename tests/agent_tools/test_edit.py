"""edit: the quoted text is replaced, and no other byte of the file changes."""

from __future__ import annotations

import json
import os
import stat
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_tools.diff import generate_diff
from agent_tools.edit import edit_tool
from agent_tools.editing.replacement import Replacement, apply_edits
from agent_tools.read import read_tool
from agent_tools.tool import Context, Result, ToolFailure


class EditedFile:
    """One file and the tool to edit it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "f"
        self.tool = edit_tool(folder)

    def put(self, content: str | bytes) -> EditedFile:
        self.path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def edit(self, old: str, new: str) -> Result:
        return self.tool(path="f", oldText=old, newText=new)

    @property
    def bytes(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture
def target(tmp_path: Path) -> EditedFile:
    return EditedFile(tmp_path)


CHANGES = [
    # content, old, new, result
    pytest.param("hello world", "hello", "goodbye", "goodbye world", id="a word"),
    pytest.param("a\nb\nc\nd\n", "b\nc", "X\nY\nZ", "a\nX\nY\nZ\nd\n", id="several lines"),
    pytest.param("a\nb\nc\n", "b\n", "", "a\nc\n", id="a line deleted"),
    pytest.param("", "", "new", "new", id="an empty file filled"),
    pytest.param("no end", "end", "END", "no END", id="no final line feed"),
    pytest.param(
        b"line1\r\nline2\r\nline3\r\n", "line1\nline2", "ONE\nTWO", b"ONE\r\nTWO\r\nline3\r\n", id="E01"
    ),
    pytest.param("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n", id="E02"),
    pytest.param(b"10%\r20%\rdone\nkeep\n", "keep", "KEEP", b"10%\r20%\rdone\nKEEP\n", id="E05"),
    pytest.param(
        b"\xef\xbb\xbfhello\n\xe4\xb8\xad\n",
        "hello",
        "hello2",
        b"\xef\xbb\xbfhello2\n\xe4\xb8\xad\n",
        id="E06",
    ),
    pytest.param(
        b"\xef\xbb\xbfa\r\nb\r\n", "\ufeffa\nb\n", "a\nc\n", b"\xef\xbb\xbfa\r\nc\r\n", id="mark and CRLF"
    ),
    pytest.param(
        "untouched   \nreplace me   \nafter\ntrailing   \n",
        "replace me\nafter",
        "DONE\nDONE2",
        "untouched   \nDONE\nDONE2\ntrailing   \n",
        id="E08",
    ),
    pytest.param(
        'x = "Alice";\n// \u201cq\u201d \u2014 n\ny\u00a0= 1;\n',
        "x = \u201cAlice\u201d;",
        'x = "Bob";',
        'x = "Bob";\n// \u201cq\u201d \u2014 n\ny\u00a0= 1;\n',
        id="E09",
    ),
    pytest.param(b"# caf\xe9\nx = 1\n", "x = 1", "x = 2", b"# caf\xe9\nx = 2\n", id="E16"),
    pytest.param(b"# caf\xe9\n", "caf\u00e9", "th\u00e9", b"# th\xe9\n", id="Latin-1 stays Latin-1"),
    pytest.param(
        "größe\n".encode() + b"\xff\nx\n", "größe", "maß", "maß\n".encode() + b"\xff\nx\n", id="damaged"
    ),
    pytest.param(
        "ö\nö\nü\n".encode() + b"\xe9\n", "\u00e9", "e", "ö\nö\nü\n".encode() + b"e\n", id="as read shows"
    ),
    pytest.param("name=a\n".encode("utf-16"), "name=a", "name=b", "name=b\n".encode("utf-16"), id="E18"),
    pytest.param(
        "name=a\n".encode("utf-16-be"), "=a", "=é中", "name=é中\n".encode("utf-16-be"), id="UTF-16 bare"
    ),
    pytest.param("a\nb\r\nc\r\n", "b", "B", "a\nB\r\nc\r\n", id="mixed endings stay"),
    pytest.param(
        "a\nb\r\nc\nd\r\n", "a\nb\nc\nd", "a\nb\nC\nd", "a\nb\r\nC\nd\r\n", id="repeated lines stay"
    ),
    pytest.param("a\r\nb\n", "a", "x\ny", "x\r\ny\r\nb\n", id="new lines end like their neighbour"),
    pytest.param("a\nb\r\n", "a\n", "a\nx\n", "a\nx\r\nb\r\n", id="an inserted line ends like the next one"),
    pytest.param(b"a\r\nlast", "last", "x\ny", b"a\r\nx\r\ny", id="the last line follows the one before"),
    pytest.param("one", "one", "x\r\ny", "x\ny", id="LF where nothing else is known"),
    pytest.param("a\rb\nX\n", "X", "p\rq", "a\rb\np\rq\n", id="a lone CR in newText is data"),
    pytest.param(
        "line one   \nline two  \nline three\n",
        "line one\nline two\n",
        "replaced\n",
        "replaced\nline three\n",
        id="trailing blanks are swallowed with their line",
    ),
    pytest.param("it\u2019s \u2014 ok\nz", "it's - ok", "it's", "it's\nz", id="at the start"),
    pytest.param(
        "a\nit\u2019s", "it's", "\u201cnew\u201d", "a\n\u201cnew\u201d", id="at the end, newText as given"
    ),
    pytest.param("it's and it\u2019s", "it's", "X", "X and it\u2019s", id="exact before forgiving"),
    pytest.param(
        "def f():\n    a\n    b\n", "a\n    ", "c\n    ", "def f():\n    c\n    b\n", id="indent quoted"
    ),
]


@pytest.mark.parametrize(("content", "old", "new", "result"), CHANGES)
def test_only_the_quoted_text_changes(
    target: EditedFile, content: str | bytes, old: str, new: str, result: str | bytes
) -> None:
    """E01, E02, E05, E06, E08, E09, E16, E18"""
    outcome = target.put(content).edit(old, new)
    assert not outcome.is_error, outcome.text
    assert target.bytes == (result.encode() if isinstance(result, str) else result)
    assert "Edited f" in outcome.text


REFUSALS = [
    # content, old, new, what the error says
    pytest.param("a\n", "b", "c", ["Could not find", "f"], id="absent"),
    pytest.param("foo bar foo", "foo", "x", ["2 occurrences", "unique"], id="twice"),
    pytest.param("foo foo foo", "foo", "x", ["3 occurrences"], id="three times"),
    pytest.param("a\n", "a", "a", ["No changes"], id="the same"),
    pytest.param("a\r\nb", "a\r\nb", "a\nb", ["No changes"], id="E03"),
    pytest.param(
        "def foo():\n    x = 1\n    y = 2\n    return x + y\n",
        "    x  =  1",
        "    x = 100",
        ["Could not"],
        id="E10",
    ),
    pytest.param("foo\nfoo\nfoo\n", "foo\nfoo\n", "R", ["2 occurrences", "lines 1, 2"], id="E11"),
    pytest.param("a\n\n\nb\n", "\n\n", "\n", ["2 occurrences"], id="E12"),
    pytest.param("foo  \nbar\nfoo\t\nbar\n", "foo\nbar", "z", ["2 occurrences", "lines 1, 3"], id="E15"),
    pytest.param(
        "hello world   \nhello world\n", "hello world\t", "x", ["2 occurrences"], id="twice, forgiving"
    ),
    pytest.param(
        "hello\r\nworld\r\n---\r\nhello\nworld\n", "hello\nworld\n", "x", ["2 occurrences"], id="mixed"
    ),
    pytest.param(
        "\n".join(["l"] * 9 + ["AAA"] + ["m"] * 379 + ["ZZZ"] + ["q"] * 10),
        "AAA\nZZZ",
        "x",
        ["Could not find"],
        id="E24",
    ),
    pytest.param("abc", "", "x", ["oldText must not be empty"], id="empty"),
    pytest.param("abc", " \n ", "x", ["oldText must not be empty"], id="blank"),
    pytest.param("a\n\n\nb\n", " \n ", "x", ["oldText must not be empty"], id="blanks beside blank lines"),
    pytest.param("a\rb\nc\n", "a\nb", "x", ["Could not find"], id="a lone CR is no line end"),
    pytest.param(b"caf\xe9\n", "caf", "\u4e2d", ["Latin-1", "newText", "\u4e2d"], id="not in this encoding"),
    pytest.param("abc", "b", "\ud83d", ["newText", "surrogate"], id="half a character"),
]


@pytest.mark.parametrize(("content", "old", "new", "expected"), REFUSALS)
def test_an_edit_that_cannot_be_made_is_an_error_and_the_file_stays(
    target: EditedFile, content: str | bytes, old: str, new: str, expected: list[str]
) -> None:
    """E03, E10, E11, E12, E15, E24"""
    target.put(content)
    before = (target.bytes, target.path.stat().st_mtime_ns, target.path.stat().st_ino)
    outcome = target.edit(old, new)
    assert outcome.is_error
    for words in expected:
        assert words in outcome.text
    assert (target.bytes, target.path.stat().st_mtime_ns, target.path.stat().st_ino) == before


# The answer


def test_the_answer_says_what_changed_and_the_details_show_it(target: EditedFile) -> None:
    outcome = target.put("l1\nl2\nl3\nl4\n").edit("l3", "X")
    assert "+1 -1 lines" in outcome.text
    assert outcome.details["diff"] == " 1 l1\n 2 l2\n-3 l3\n+3 X\n 4 l4"
    assert outcome.details["firstChangedLine"] == 3
    assert outcome.meta is None


def test_the_diff_of_a_forgiving_edit_shows_that_block_only(target: EditedFile) -> None:
    """E08"""
    outcome = target.put("untouched   \nreplace me   \nafter\ntrailing   \n").edit(
        "replace me\nafter", "D\nE"
    )
    changed = [row for row in outcome.details["diff"].split("\n") if row[0] in "+-"]
    assert changed == ["-2 replace me   ", "-3 after", "+2 D", "+3 E"]
    assert "differed from oldText" in outcome.text


def test_the_answer_stays_short_however_much_changes(target: EditedFile) -> None:
    """E27"""
    outcome = target.put("a\n").edit("a", "\n".join(map(str, range(5000))))
    assert len(outcome.text) < 300
    assert outcome.details["diff"].count("\n+") == 5000


def test_the_diff_can_be_sent_as_json_whatever_the_file_holds(target: EditedFile) -> None:
    outcome = target.put("ö\n".encode() + b"\xff x\n").edit("x", "y")
    json.dumps(outcome.details, ensure_ascii=False).encode()


def test_the_closest_lines_are_shown_when_nothing_matches(target: EditedFile) -> None:
    target.put("import os\n\ndef compute_total(items):\n    return sum(items)\n")
    assert "3: def compute_total(items):" in target.edit("def compute_totals(item):", "x").text
    assert "4:     return sum(items)" in target.edit("\treturn sum(items)\n", "x").text
    assert "3: def compute_total(items):" in target.edit("def total(items):\n    return sum(items)", "x").text


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (10, "10 occurrences of the text in f (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"),
        (11, "11 occurrences of the text in f (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)"),
        (5000, "at least 1000 occurrences"),
    ],
)
def test_many_places_are_counted_and_the_first_ones_named(
    target: EditedFile, count: int, expected: str
) -> None:
    assert expected in target.put("x\n" * count).edit("x", "y").text


def test_several_places_in_one_line_name_it_once(target: EditedFile) -> None:
    assert "(line 2)" in target.put("a\nx x\n").edit("x", "y").text


def test_wrong_indentation_is_named_as_the_difference(target: EditedFile) -> None:
    target.put("def f():\n\treturn 1\n\treturn 2\n")
    assert "only in blanks" in target.edit("    return 1\n    return 2", "x").text
    assert "only in blanks" not in target.edit("    return 1\n    return 3", "x").text


def test_the_search_for_near_lines_is_bounded(target: EditedFile) -> None:
    target.put("some words here\n" * 600_000)
    assert "Could not find" in target.edit("none of these lines\nis here", "x").text


# Several edits


def edits(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"oldText": old, "newText": new} for old, new in pairs]


def test_several_edits_are_found_in_the_original_text(target: EditedFile) -> None:
    target.put("a\nb\nc\n")
    assert not target.tool(path="f", edits=edits(("c", "a"), ("a", "c"))).is_error
    assert target.bytes == b"c\nb\na\n"


def test_edits_may_touch_each_other(target: EditedFile) -> None:
    target.put("ab\n")
    assert not target.tool(path="f", edits=edits(("a", "x"), ("b", "y"))).is_error
    assert target.bytes == b"xy\n"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (edits(("a\nb", "X"), ("b\nc", "Y")), ["edits[0] and edits[1] overlap", "line 2"]),
        (edits(("a", "X"), ("a", "Y")), ["overlap"]),
        (edits(("a", "X"), ("no", "Y"), ("none", "Z")), ["edits[1]: Could not find", "edits[2]: Could not"]),
        ([{"oldText": "a"}], ["edits.0.newText is required"]),
        ("no json", ["edits", "array"]),
        ([3], ["edits.0"]),
    ],
)
def test_edits_that_cannot_all_be_made_change_nothing(
    target: EditedFile, wrong: Any, expected: list[str]
) -> None:
    target.put("a\nb\nc\n")
    outcome = target.tool(path="f", edits=wrong)
    assert outcome.is_error
    for words in expected:
        assert words in outcome.text
    assert target.bytes == b"a\nb\nc\n"


@pytest.mark.parametrize("given", [json.dumps(edits(("b", "x"))), edits(("b", "x"))[0], edits(("b", "x"))])
def test_edits_are_taken_as_models_send_them(target: EditedFile, given: Any) -> None:
    """E23"""
    target.put("a\nb\n")
    assert not target.tool(path="f", edits=given).is_error
    assert target.bytes == b"a\nx\n"


def test_arguments_sent_as_json_text_with_raw_line_feeds_are_taken(target: EditedFile) -> None:
    """E23"""
    target.put("a")
    outcome = target.tool.execute('{"path":"f","oldText":"a","newText":"l1\nl\t2"}')
    assert not outcome.is_error
    assert target.bytes == b"l1\nl\t2"


def test_an_empty_list_beside_oldtext_is_ignored_and_both_forms_at_once_are_not(target: EditedFile) -> None:
    target.put("a")
    assert not target.tool(path="f", oldText="a", newText="b", edits=[]).is_error
    outcome = target.tool(path="f", oldText="b", newText="c", edits=edits(("b", "d")))
    assert "not both" in outcome.text
    assert target.bytes == b"b"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"oldText": "a", "newText": "b"}, "path is required"),
        ({"path": "", "oldText": "a", "newText": "b"}, "path is required"),
        ({"path": "f"}, "oldText and newText are required"),
        ({"path": "f", "oldText": "a"}, "newText is required"),
        ({"path": "f", "newText": "a"}, "oldText is required"),
        ({"path": "f", "oldText": 3, "newText": "b"}, "oldText: expected a string"),
    ],
)
def test_missing_and_wrong_arguments_are_named(
    target: EditedFile, arguments: dict[str, Any], expected: str
) -> None:
    target.put("a")
    outcome = target.tool.execute(arguments)
    assert outcome.is_error
    assert expected in outcome.text


# The file


def test_a_missing_file_a_directory_and_a_pipe_are_errors(target: EditedFile) -> None:
    (target.folder / "sub").mkdir()
    os.mkfifo(target.folder / "pipe")
    for path, expected in (("no", "not found: no"), ("sub", "directory"), ("pipe", "FIFO")):
        outcome = target.tool(path=path, oldText="a", newText="b")
        assert outcome.is_error
        assert expected in outcome.text


def test_a_file_that_read_finds_edit_finds_too(target: EditedFile) -> None:
    (target.folder / "it\u2019s").write_text("a")
    assert not target.tool(path="it's", oldText="a", newText="b").is_error
    assert (target.folder / "it\u2019s").read_text() == "b"


def test_what_read_shows_of_a_marked_file_can_be_edited(target: EditedFile) -> None:
    """R12"""
    target.put(b'\xef\xbb\xbf{"a":1}\n')
    shown = read_tool(target.folder)(path="f").text
    assert not target.edit(shown, "{}\n").is_error
    assert target.bytes == b"\xef\xbb\xbf{}\n"


@pytest.mark.parametrize("mode", [0o755, 0o600])
def test_an_edit_keeps_the_mode(target: EditedFile, mode: int) -> None:
    """E19"""
    target.put("a").path.chmod(mode)
    target.edit("a", "b")
    assert (target.bytes, stat.S_IMODE(target.path.stat().st_mode)) == (b"b", mode)


def test_an_edit_through_a_link_keeps_the_link(target: EditedFile) -> None:
    """E20"""
    (target.folder / "l.txt").symlink_to("f")
    target.put("a\n")
    assert not target.tool(path="l.txt", oldText="a", newText="b").is_error
    assert (target.folder / "l.txt").is_symlink()
    assert target.bytes == b"b\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_an_error_and_stays(target: EditedFile) -> None:
    target.put("a").path.chmod(0o444)
    outcome = target.edit("a", "b")
    assert "Permission denied" in outcome.text
    assert target.bytes == b"a"


def test_a_stale_hash_stops_the_edit(target: EditedFile) -> None:
    digest = read_tool(target.folder)(path=target.put("a").path.name).meta["hash"]
    assert not target.tool(path="f", oldText="a", newText="b", if_hash=digest).is_error
    outcome = target.tool(path="f", oldText="b", newText="c", if_hash=digest)
    assert "has changed" in outcome.text
    assert target.bytes == b"b"


class CancelledFromThe(threading.Event):
    """Is found set from the n-th look on."""

    def __init__(self, look: int) -> None:
        super().__init__()
        self.left = look

    def is_set(self) -> bool:
        self.left -= 1
        return self.left <= 0


@pytest.mark.parametrize("look", [1, 2, 3])
def test_a_cancelled_edit_leaves_the_file_as_it_was(target: EditedFile, look: int) -> None:
    stop = CancelledFromThe(look)
    outcome = target.put("a").tool.execute(
        {"path": "f", "oldText": "a", "newText": "b"}, Context(cancel=stop)
    )
    assert stop.left == 0
    assert "aborted" in outcome.text
    assert target.bytes == b"a"


def test_the_journal_records_changes_that_will_be_made_and_no_others(target: EditedFile) -> None:
    class Journal:
        def __init__(self) -> None:
            self.before: list[bytes] = []

        def before_change(self, path: str) -> None:
            self.before.append(Path(path).read_bytes())

    journal = Journal()
    target.put("a")
    for old in ("none", "a"):
        target.tool.execute({"path": "f", "oldText": old, "newText": "b"}, Context(journal=journal))
    assert journal.before == [b"a"]


def test_edits_at_the_same_time_lose_nothing_whatever_path_is_used(target: EditedFile) -> None:
    """E21"""
    (target.folder / "link").symlink_to("f")
    (target.folder / "sub").mkdir()
    spellings = ("f", "link", "sub/../f", str(target.path))
    content = "\n".join(f"<{n}>" for n in range(1, 101))
    for run in range(200):
        target.put(content)
        barrier = threading.Barrier(2)

        def edit(number: int, path: str, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(10)
            target.tool(path=path, oldText=f"<{number}>", newText=f"NEW{number}")

        threads = [
            threading.Thread(target=edit, args=(50, spellings[run % 4])),
            threading.Thread(target=edit, args=(75, spellings[run // 4 % 4])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert target.path.read_text() == content.replace("<50>", "NEW50").replace("<75>", "NEW75")


def test_a_forgiving_edit_of_a_large_file_takes_memory_in_proportion(target: EditedFile) -> None:
    content = "".join(f"line {n} \u201cq\u201d of a large file   \n" for n in range(60_000))
    target.put(content)
    tracemalloc.start()
    try:
        outcome = target.edit('line 30000 "q" of a large file\nline 30001', "X")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not outcome.is_error
    assert outcome.details["firstChangedLine"] == 30001
    assert peak < 40 * len(content)


# Delegates


def test_delegates_stand_for_the_disk(tmp_path: Path) -> None:
    buffers = {str(tmp_path / "f"): "\ufeffa\r\nb\r\n"}

    def writer(context: Any, path: str, text: str) -> None:
        buffers[path] = text

    tool = edit_tool(tmp_path, reader=lambda context, path: buffers[path], writer=writer)
    assert not tool(path="f", oldText="a\nb", newText="a\nc").is_error
    assert buffers == {str(tmp_path / "f"): "\ufeffa\r\nc\r\n"}
    assert "Could not find" in tool(path="f", oldText="x", newText="y").text
    assert "not found" in tool(path="other", oldText="x", newText="y").text


def test_the_error_of_a_writing_delegate_is_returned(tmp_path: Path) -> None:
    def writer(context: Any, path: str, text: str) -> None:
        raise RuntimeError("the editor is closed")

    tool = edit_tool(tmp_path, reader=lambda context, path: "a", writer=writer)
    assert "the editor is closed" in tool(path="f", oldText="a", newText="b").text


def test_the_description_has_the_rules() -> None:
    tool = edit_tool()
    for word in ("exactly once", "overlap", "all are applied or none", "write"):
        assert word in tool.description
    assert set(tool.parameters["properties"]) == {"path", "oldText", "newText", "edits", "if_hash"}
    assert tool.parameters["required"] == ["path"]
    assert tool.parameters["properties"]["edits"]["items"]["required"] == ["oldText", "newText"]
    assert not tool.parallel


_words = st.sampled_from(["a", "b", "\n", "\n\n", "c\n", "\r\n", "é", "x" * 30 + "\n"])


@given(st.lists(_words, max_size=60).map("".join), st.data())
def test_the_shown_diff_is_that_of_the_whole_texts(text: str, data: st.DataObject) -> None:
    most = st.integers(0, len(text))
    places = sorted(data.draw(st.lists(most, min_size=2, max_size=4, unique=True))) if len(text) > 4 else []
    edits = [
        Replacement(oldText=text[start:end], newText=data.draw(_words))
        for start, end in zip(places[::2], places[1::2], strict=False)
    ]
    assume(edits)
    try:
        edited = apply_edits(text.encode(), edits, "f")
    except ToolFailure:
        return
    assert edited.diff() == generate_diff(edited.before, edited.after)


@pytest.mark.parametrize(
    "start", [b"\xff\xfe", b"\xfe\xff", b"x\xff\xfe", b"\xff", b"\xc3(", b"\xff\xfe\0\0", b"\xef\xbb\xbf\xff"]
)
def test_a_straight_quote_meets_a_curly_one_in_damaged_utf8(start: bytes, tmp_path: Path) -> None:
    """FS-W4"""
    (tmp_path / "f").write_bytes(start + b" it\xe2\x80\x99s \xc3\n")

    result = edit_tool(tmp_path)(path="f", oldText="it's", newText="it is")

    assert not result.is_error
    assert (tmp_path / "f").read_bytes() == start + b" it is \xc3\n"
