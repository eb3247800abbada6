"""One contract, two engines: whatever the tree and the pattern, the same answer."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from support.engines import use_engine

from agent_tools.grep import grep_tool
from agent_tools.tool import Result

LONG = "x" * 700 + " needle in the middle " + "y" * 700
NASTY_TREE: dict[str, bytes] = {
    ".gitignore": b"*.log\n!keep.log\n/out/\nsub/gen/*\n!sub/gen/*/\nsecret\n",
    "a.txt": b"needle one\nplain\nneedle two\n",
    "a/b.txt": b"before\nneedle\nafter\n",
    "a-b.txt": b"needle\n",
    "b.log": b"needle\n",
    "keep.log": b"needle kept\n",
    "out/x.txt": b"needle\n",
    "sub/gen/y.txt": b"needle\n",
    "sub/gen/deep/z.txt": b"needle deep\n",
    "sub/.gitignore": b"*\n!*.py\n!*/\n",
    "sub/m.py": b"def needle(self):\n    return 'needle'\n",
    "sub/n.txt": b"needle\n",
    ".hidden/.file": b"needle hidden\n",
    ".git/config": b"needle\n",
    "node_modules/p/index.js": b"needle\n",
    "secret": b"needle\n",
    "crlf.txt": b"needle\r\nneedle end\r\n\r\n",
    "cr.txt": b"10%\r20% needle\rdone\nneedle\n",
    "latin.txt": b"caf\xe9 needle\nna\xefve\n",
    "mixed.txt": b"caf\xc3\xa9 needle\ncaf\xe9 needle\n",
    "bom.txt": b"\xef\xbb\xbfneedle first\n",
    "u16le.txt": "needle wide é\nzwei\n".encode("utf-16"),
    "u16be.txt": b"\xfe\xff" + "needle big é\r\n".encode("utf-16-be"),
    "bin": b"\x00\x01needle\x00" + b"\xff" * 3000,
    "png": b"\x89PNG\r\n\x1a\n\0\0needle",
    "late-nul.txt": b"needle\n" + b"x\n" * 20_000 + b"\0 needle\n",
    "long.txt": LONG.encode() + b"\nneedle\n",
    "huge-line.txt": b"z" * (2 << 20) + b"needle" + b"z" * 10 + b"\n",
    "many.txt": b"".join(b"needle %d\nfiller\n" % n for n in range(300)),
    "turkish.txt": "İstanbul ıNDEX \u212aelvin ſtraße\n".encode(),
    "upper.txt": b"NEEDLE Needle\n",
    "empty": b"",
    "blank": b"\n\n\n",
    " lead and trail ": b"needle\n",
    "-dash": b"needle\n",
    "-": b"needle\n",
    "line\nfeed": b"needle\n",
    os.fsdecode(b"bytes\xff\xfe"): b"needle\n",
    "uni\u2028code é.txt": b"needle\n",
}
CALLS: list[dict[str, Any]] = [
    {"pattern": "needle"},
    {"pattern": "needle", "context": 2, "limit": 1000},
    {"pattern": "needle", "limit": 3},
    {"pattern": "needle", "limit": 1, "context": 5},
    {"pattern": "NEEDLE", "ignoreCase": True},
    {"pattern": r"^needle\b.*$"},
    {"pattern": r"\bneedle$"},
    {"pattern": r"need(le|ed)\s+\w+"},
    {"pattern": "^$"},
    {"pattern": ""},
    {"pattern": r"caf. needle"},
    {"pattern": "café"},
    {"pattern": "CAFÉ", "ignoreCase": True},
    {"pattern": r"[^ -~]"},
    {"pattern": "istanbul|index|kelvin|strasse", "ignoreCase": True},
    {"pattern": r"needle(?!\w)"},
    {"pattern": r"(e)\1"},
    {"pattern": "foo("},
    {"pattern": "needle(self)", "literal": False},
    {"pattern": "needle(self)", "literal": True},
    {"pattern": "interface{}"},
    {"pattern": "nothing at all"},
    {"pattern": "needle", "glob": "*.txt"},
    {"pattern": "needle", "glob": "sub/**/*.py"},
    {"pattern": "needle", "glob": "!*.txt", "context": 1},
    {"pattern": "needle", "path": "secret"},
    {"pattern": "needle", "path": "-"},
    {"pattern": "needle", "path": "linked.txt"},
    {"pattern": "needle", "path": "out"},
    {"pattern": "needle", "path": "sub"},
    {"pattern": "needle", "path": "sub/gen"},
    {"pattern": "needle", "path": "node_modules/p"},
    {"pattern": "needle", "path": "bin"},
    {"pattern": "needle", "path": "u16le.txt", "context": 1},
    {"pattern": "needle", "path": "huge-line.txt"},
    {"pattern": r"\d{3}$", "path": "many.txt", "context": 1},
    {"pattern": "--pre=x"},
    {"pattern": r"\x{e9}"},
    {"pattern": "a\nb"},
    {"pattern": "[[:alpha:]]{8}"},
    {"pattern": ".", "limit": 100_000},
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, data in NASTY_TREE.items():
        path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    (tmp_path / "a/loop").symlink_to("..")
    (tmp_path / "linked.txt").symlink_to("a.txt")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def answers(folder: Path, calls: list[dict[str, Any]], engine: str) -> list[Result]:
    with pytest.MonkeyPatch.context() as patch:
        use_engine(engine, patch)
        tool = grep_tool(folder)
        return [tool.execute(call) for call in calls]


def test_both_engines_give_the_same_result_in_a_difficult_tree(tree: Path) -> None:
    ours, theirs = answers(tree, CALLS, "python"), answers(tree, CALLS, "ripgrep")
    for call, one, other in zip(CALLS, ours, theirs, strict=True):
        assert one == other, call
        one.text.encode()  # no lone surrogate
        assert one.text


def test_the_result_in_the_difficult_tree_is_right(tree: Path) -> None:
    (result,) = answers(tree, [{"pattern": "^needle$", "glob": "!*.txt"}], "python")
    assert result.text.split("\n") == [
        *(
            " lead and trail :1: needle",
            "-:1: needle",
            "-dash:1: needle",
            r"bytes\xff\xfe:1: needle",
            r"line\nfeed:1: needle",
        ),
    ]


def test_mixing_both_engines_in_one_search_changes_nothing(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [{"pattern": "needle", "limit": 1000, "context": 1}, {"pattern": r"need\w+ \w", "limit": 1000}]
    expected = answers(tree, calls, "python")
    for share in (1, 5, 10):
        monkeypatch.setattr("agent_tools.search.engine._RIPGREP_FROM_FILES", share)
        assert [grep_tool(tree).execute(call) for call in calls] == expected


def test_both_engines_agree_on_random_text_and_random_patterns(tmp_path: Path) -> None:
    chance = random.Random(5)
    letters = [
        "a",
        "b",
        "i",
        "K",
        "1",
        " ",
        "_",
        "-",
        "é",
        "ı",
        "ſ",
        "日",
        "ÿ",
        "\t",
        "\r",
        "\xa0",
        "ß",
        "foo",
        "\ufeff",
    ]
    for number in range(60):
        text = "\n".join("".join(chance.choices(letters, k=chance.randint(0, 6))) for _ in range(5))
        encoding = chance.choice(["utf-8", "utf-8", "latin-1", "utf-16", "utf-8-sig"])
        (tmp_path / f"f{number}").write_bytes(text.encode(encoding, "ignore"))
    pieces = [
        "a",
        "b",
        "i",
        "é",
        "日",
        ".",
        r"\w",
        r"\s",
        r"\S",
        "[a-c]",
        "[^a]",
        "[é-ÿ]",
        r"\b",
        "^",
        "$",
        "|",
        "foo",
        "ß",
    ]
    calls = []
    for _ in range(80):
        parts = [chance.choice(pieces) + chance.choice(["", "", "", "+", "*", "?", "{2}"]) for _ in range(3)]
        calls.append(
            {"pattern": "".join(parts), "ignoreCase": chance.random() < 0.4, "context": chance.choice([0, 2])}
        )
    for call, one, other in zip(
        calls, answers(tmp_path, calls, "python"), answers(tmp_path, calls, "ripgrep"), strict=True
    ):
        assert one == other, call


def test_a_search_stops_reading_once_the_limit_is_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is counted in files that were opened."""
    for number in range(500):
        (tmp_path / f"f{number:03}").write_bytes(b"hit\n")
    use_engine("python", monkeypatch)
    opened = 0
    real_open = os.open

    def counting(path: Any, *arguments: Any, **options: Any) -> int:
        nonlocal opened
        opened += 1
        return real_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", counting)
    assert grep_tool(tmp_path)(pattern="hit", limit=5).details == {"matchLimitReached": 5}
    assert opened <= 10


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_engine("python", monkeypatch)
    (tmp_path / "a").write_bytes(b"hit\n")
    (tmp_path / "b").write_bytes(b"hit\n")
    real_open = os.open

    def refusing(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    result = grep_tool(tmp_path)(pattern="hit")
    assert result.text == "b:1: hit\n\n[Could not read 1: a]"
    assert "could not read 1: a" in grep_tool(tmp_path)(pattern="miss").text
    named = grep_tool(tmp_path)(pattern="hit", path="a")
    assert named.is_error
    assert "cannot read a" in named.text
