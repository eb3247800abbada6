"""Options that write or run something, which a star does not stand for."""

from __future__ import annotations

import pytest

from agent.cli.permissions.risky_options import risky_words
from agent.cli.permissions.shell_lexer import parse_script


def _risky(command: str) -> list[str]:
    words = parse_script(command).commands[0].words
    return [words[at] for at in sorted(risky_words(words))]


@pytest.mark.parametrize(
    ("command", "risky"),
    [
        ("git diff --output=x y", ["--output=x"]),
        ("git diff --out x", ["--out"]),
        ("git log --oneline --no-ext-diff", []),
        ("git -c a=b log", ["-c", "a=b"]),
        ("git switch -c branch", []),
        ("git rebase -x 'make' main", ["-x"]),
        ("git clean -x", []),
        ("git clone -u x y", ["-u"]),
        ("git push -u origin main", []),
        ("git config a b", ["config"]),
        ("git log config", []),
        ("git bisect run x", ["bisect"]),
        ("sort -ruo x", ["-ruo"]),
        ("sort -k2 -n", []),
        ("find . -exec a ;", ["-exec"]),
        ("find . -name -x", []),
        ("curl -o x https://a", ["-o"]),
        ("tar -xf a", []),
        ("tar --to-c=x -xf a", ["--to-c=x"]),
        ("vim +!x a", ["+!x"]),
        ("ls -o --output", []),
        ("python3.11 -c x", ["-c"]),
        ("printf -v x y", ["-v"]),
        ("read x y", ["x", "y"]),
        ("make CC=x -j4 all", ["CC=x"]),
        ("sed -n 1p a", []),
        ("sed 1w a", ["1w"]),
        ("sed -e 1p -e 'r x' a", ["r x"]),
        ("awk '{print $1}' a", []),
        ("awk -v x=1 '{print > x}' a", ["{print > x}"]),
        ("timeout 5 git diff --output=x", ["git", "--output=x"]),
        ("xargs -Z a", ["-Z", "a"]),
        ("go test --exec ./evil ./...", ["--exec"]),
        ("go test -exec=./evil ./...", ["-exec=./evil"]),
        ("go vet --vettool=./evil", ["--vettool=./evil"]),
        ("openssl enc --out x", ["--out"]),
        ("sqlite3 --cmd '.shell x' db", ["--cmd"]),
        ("git merge-index ./evil -a", ["merge-index"]),
        ("git checkout-index --prefix=/x a", ["checkout-index"]),
        ("git fast-export --export-marks=x", ["fast-export"]),
        ("git my-alias", ["my-alias"]),
        ("git help -w x", ["help"]),
        ("bat --pager=./evil x", ["--pager=./evil"]),
        ("svn diff --diff-cmd ./evil", ["--diff-cmd"]),
        ("hg log --config a.b=c", ["--config"]),
        ("xxd a b", ["b"]),
        ("pip list --log x", ["--log"]),
    ],
)
def test_risky_words_of_common_programs(command: str, risky: list[str]) -> None:
    assert _risky(command.replace(" ;", " \\;")) == risky


def test_a_word_that_expands_may_be_such_an_option() -> None:
    assert len(_risky('git diff * $x "$y" a*')) == 3
    assert _risky("ls * $x") == []
