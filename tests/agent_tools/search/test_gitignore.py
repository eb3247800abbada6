"""The walk: which files count, in which order, and what .gitignore means."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pathspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.real import require_or_skip
from support.rounds import rounds

from agent_tools.search.gitignore import Walk, parse_rules


def tree(root: Path, *names: str, **contents: str) -> None:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")


def ignore(folder: Path, rules: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text(rules)


def paths(root: Path, top: Path | None = None, *, files_only: bool = False) -> list[str]:
    walk = Walk(str(root), top=str(top) if top else "", files_only=files_only)
    return [prefix + name for prefix, names in walk for name in names]


def files(root: Path, top: Path | None = None) -> list[str]:
    return [path for path in paths(root, top, files_only=True) if not path.endswith(("/", ".gitignore"))]


def test_every_entry_comes_once_in_the_order_of_its_path(tmp_path: Path) -> None:
    tree(tmp_path, "b/x", "b.py", "b/", "a", "b-c", "b/y/z", "B", ".hidden/h", "ä", "empty/")
    found = paths(tmp_path)
    assert found == sorted(found)
    assert found == [
        ".hidden/",
        ".hidden/h",
        "B",
        "a",
        "b-c",
        "b.py",
        "b/",
        "b/x",
        "b/y/",
        "b/y/z",
        "empty/",
        "ä",
    ]


def test_repository_internals_and_node_modules_are_skipped_at_every_level(tmp_path: Path) -> None:
    """G18"""
    tree(tmp_path, ".git/config", "node_modules/a/b.js", "sub/.git/config", "sub/node_modules/c.js", "sub/x")
    assert files(tmp_path) == ["sub/x"]


def test_a_root_below_node_modules_or_git_is_walked_all_the_same(tmp_path: Path) -> None:
    tree(tmp_path, "node_modules/p/index.js", ".git/hooks/pre")
    ignore(tmp_path, "node_modules/\n")
    assert files(tmp_path / "node_modules", tmp_path) == ["p/index.js"]
    assert files(tmp_path / "node_modules/p", tmp_path) == ["index.js"]
    assert files(tmp_path / ".git", tmp_path) == ["hooks/pre"]


def test_gitignore_holds_without_a_repository_and_at_every_level(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "a.txt", "sub/b.log", "sub/b.txt", "sub/b.tmp", "other/c.tmp")
    ignore(tmp_path, "*.log\n")
    ignore(tmp_path / "sub", "*.tmp\n!keep.log\n")
    tree(tmp_path, "sub/keep.log")
    assert files(tmp_path) == ["a.txt", "other/c.tmp", "sub/b.txt", "sub/keep.log"]


def test_a_negation_brings_a_file_back_and_a_folder_only_as_a_folder(tmp_path: Path) -> None:
    """G15"""
    ignore(tmp_path / "one", "*\n!*.txt\n")
    tree(tmp_path, "one/foo.txt", "one/foo.py")
    ignore(tmp_path / "two", "dir/*\n!dir/*/\n")
    tree(tmp_path, "two/dir/y.txt", "two/dir/sub/x.txt")
    assert files(tmp_path / "one") == ["foo.txt"]
    assert files(tmp_path / "two") == ["dir/sub/x.txt"]


def test_nothing_below_an_ignored_folder_comes_back(tmp_path: Path) -> None:
    tree(tmp_path, "build/keep.txt", "x")
    ignore(tmp_path, "build/\n!build/keep.txt\n")
    assert files(tmp_path) == ["x"]


@pytest.mark.parametrize(
    ("rule", "ignored", "kept"),
    [
        ("/top", ["top"], ["sub/top"]),
        ("only/", ["only/x"], ["sub/only"]),
        ("a/b", ["a/b"], ["x/a/b"]),
        ("**/b", ["b", "x/y/b"], ["bb"]),
        ("a/**", ["a/x", "a/y/z"], ["b/a"]),
        ("a/**/z", ["a/z", "a/m/n/z"], ["z"]),
        ("*.l?g", ["a.log", "x/b.lag"], ["a.lg"]),
        ("f[0-9]", ["f1"], ["fa"]),
        ("\\#x", ["#x"], ["x"]),
        ("\\!x", ["!x"], ["x"]),
        ("# x", [], ["# x", "x"]),
        ("trail   ", ["trail"], ["trail   "]),
        ("trail\\ ", ["trail "], ["trail"]),
        ("crlf\r", ["crlf"], ["crlfx"]),
        ("\ufeffmark", ["mark"], ["x"]),
        ("{a,b}", ["{a,b}"], ["a", "b"]),
        ("[broken", [], ["[broken", "b"]),
        (".env*\n!.env.example", [".env", ".env.local"], [".env.example"]),
        ("ä*", ["äb"], ["a"]),
    ],
)
def test_a_rule_means_what_git_says(tmp_path: Path, rule: str, ignored: list[str], kept: list[str]) -> None:
    tree(tmp_path, *ignored, *kept)
    ignore(tmp_path, rule + "\n")
    assert files(tmp_path) == sorted(kept)


NASTY_RULES = {
    "": "*.log\n!keep.log\n/out/\n**/cache/**\ntmp-*/\n*~\nsub/*.c\n!sub/a.c\n"
    "docs/**/x\n[ab].txt\nfoo/\n!foo/\n",
    "sub": "*\n!*.py\n!deep/\n",
    "sub/deep": "!*.md\n/x.py\n",
}
NASTY_NAMES = [
    *(
        "a.log",
        "keep.log",
        "out/x",
        "sub/out/x",
        "cache/a/b",
        "x/cache/y",
        "tmp-1/a",
        "tmp-f",
        "b~",
        "sub/a.c",
    ),
    *("sub/b.c", "docs/x", "docs/a/b/x", "docs/xy", "a.txt", "c.txt", "foo/a", "sub/m.py", "sub/deep/x.py"),
    *("sub/deep/n.md", "sub/deep/y.py", "sub/deep/er/x.py", "sub/other/z.py", "line\nfeed", "sub/-dash.py"),
]


def test_the_walk_of_a_difficult_tree_gives_the_files_that_git_sees(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        require_or_skip("git is not installed")
    tree(tmp_path, *NASTY_NAMES)
    for folder, rules in NASTY_RULES.items():
        ignore(tmp_path / folder, rules)
    subprocess.run(
        [git, "init", "-q", str(tmp_path)], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    )
    command = [git, "-C", str(tmp_path), "ls-files", "-co", "--exclude-per-directory=.gitignore", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    ours = [path for path in paths(tmp_path, files_only=True) if not path.endswith("/")]
    assert ours == sorted(path for path in listed if path)


def test_the_rules_of_the_folders_above_hold_up_to_the_repository(tmp_path: Path) -> None:
    ignore(tmp_path, "*.txt\n")
    ignore(tmp_path / "repo", "*.log\n/sub/made/\n")
    tree(
        tmp_path, "repo/.git/HEAD", "repo/sub/a.log", "repo/sub/a.txt", "repo/sub/made/x", "repo/sub/src/a.py"
    )
    assert files(tmp_path / "repo/sub") == ["a.txt", "src/a.py"]


def test_without_a_repository_the_rules_above_hold_up_to_the_working_directory(tmp_path: Path) -> None:
    ignore(tmp_path, "*.txt\n")
    ignore(tmp_path / "work", "*.log\n")
    tree(tmp_path, "work/sub/a.log", "work/sub/a.txt")
    assert files(tmp_path / "work/sub", top=tmp_path / "work") == ["a.txt"]


def test_a_root_that_is_ignored_or_lies_in_an_ignored_folder_is_walked_all_the_same(tmp_path: Path) -> None:
    """G09"""
    ignore(tmp_path / "venv", "*\n")
    ignore(tmp_path, "build/\n*.py\n")
    tree(tmp_path, "venv/lib/a.py", "build/deep/b.py")
    assert files(tmp_path / "venv/lib", tmp_path) == ["a.py"]
    assert files(tmp_path / "build", tmp_path) == ["deep/b.py"]
    assert files(tmp_path / "build/deep", tmp_path) == ["b.py"]


def test_links_are_listed_but_never_followed(tmp_path: Path) -> None:
    """F06"""
    tree(tmp_path, "a/f")
    (tmp_path / "a/link").symlink_to("..")
    (tmp_path / "to-file").symlink_to("a/f")
    (tmp_path / "nowhere").symlink_to("missing")
    assert paths(tmp_path) == ["a/", "a/f", "a/link", "nowhere", "to-file"]
    assert paths(tmp_path, files_only=True) == ["a/", "a/f"]


def test_a_folder_named_by_a_link_is_walked(tmp_path: Path) -> None:
    tree(tmp_path, "real/f")
    (tmp_path / "link").symlink_to("real")
    assert files(tmp_path / "link") == ["f"]


def test_pipes_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert paths(tmp_path, files_only=True) == []


def test_odd_names_pass_through(tmp_path: Path) -> None:
    for name in (b"bad\xff.txt", b"new\nline", b" blank ", b"back\\slash"):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb"):
            pass
    (tmp_path / ".gitignore").write_bytes(b"bad\xff*\n")
    assert files(tmp_path) == [" blank ", "back\\slash", "new\nline"]


def test_a_gitignore_that_is_a_folder_is_no_rule(tmp_path: Path) -> None:
    tree(tmp_path, ".gitignore/x", "y")
    assert files(tmp_path) == [".gitignore/x", "y"]


def test_it_is_known_afterwards_whether_something_was_ignored(tmp_path: Path) -> None:
    tree(tmp_path, "x", ".git/config")
    plain = Walk(str(tmp_path))
    assert [*plain]
    assert not plain.ignored
    ignore(tmp_path, "x\n")
    walk = Walk(str(tmp_path))
    assert [*walk]
    assert walk.ignored


def test_a_folder_that_vanishes_is_named_and_the_walk_goes_on(tmp_path: Path) -> None:
    tree(tmp_path, "a/x", "b/y")
    walk = Walk(str(tmp_path))
    seen = []
    for prefix, names in walk:
        if not seen:
            shutil.rmtree(tmp_path / "a")
        seen += [prefix + name for name in names]
    assert seen == ["a/", "b/", "b/y"]
    assert walk.unreadable == ["a/"]


def test_a_root_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(Walk(str(tmp_path / "missing")))


def test_each_folder_is_listed_once_and_the_walk_can_be_ended_there(tmp_path: Path) -> None:
    tree(tmp_path, *(f"d{n}/f" for n in range(20)))
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        list(Walk(str(tmp_path), check=check))
    assert calls == 6


def test_blank_lines_and_comments_are_no_rules() -> None:
    assert parse_rules("\n# x\n   \n/\n!\n") == []


_NAMES = ["a", "b.py", "c.pyc", "build", "docs", ".env", "x.log", "deep"]
_RULES = (
    "*.pyc build/ /build docs/*.log !x.log **/deep deep/** *.log !b.py .env a /a/b.py docs/**/c.pyc ? "
    "[a-c].py #note !docs/ */build \\!a"
).split()


@settings(
    max_examples=rounds(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rules=st.lists(st.sampled_from(_RULES), min_size=1, max_size=6),
    places=st.lists(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4), min_size=1, max_size=12),
)
def test_pathspec_or_git_agrees_on_everyday_rules(
    rules: list[str], places: list[list[str]], tmp_path: Path
) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    for parts in places:
        with contextlib.suppress(OSError):  # a file stands where a folder is wanted
            (root.joinpath(*parts)).parent.mkdir(parents=True, exist_ok=True)
            (root.joinpath(*parts)).touch(exist_ok=True)
    ignore(root, "\n".join(rules))
    spec = pathspec.GitIgnoreSpec.from_lines(rules)
    everything = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    expected = sorted(name for name in everything if name != ".gitignore" and not spec.match_file(name))

    found = sorted(files(root))

    if found != expected:
        # pathspec lets a negation bring back what lies in an ignored folder; git decides.
        git = shutil.which("git") or require_or_skip("git is not installed")
        subprocess.run([git, "init", "-q", str(root)], check=True)
        listed = subprocess.run(
            [git, "-C", str(root), "ls-files", "-oz", "--exclude-standard"], capture_output=True, check=True
        ).stdout.decode()
        assert found == sorted(name for name in listed.split("\0") if name and name != ".gitignore")
