"""Options of common programs that write files, run other programs or change the shell.

A star of an allowing pattern that stands for whole words does not stand for these: the pattern must name
them. The list cannot be complete; docs/approvals.md says so, and which stars are safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.cli.permissions.shell_lexer import EXPANSIONS, without_markers
from agent.cli.permissions.wrapped_commands import SHELLS, is_wrapper, program_name, wrapped_at


@dataclass(frozen=True, slots=True)
class Risky:
    """The risky words of one program: letters of short options, long options, and other words."""

    letters: str = ""
    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    every_word: bool = False


def _risky(letters: str = "", words: str = "", *, every_word: bool = False) -> Risky:
    listed = words.split()
    options = tuple(word for word in listed if word.startswith("--"))
    return Risky(letters, options, tuple(word for word in listed if not word.startswith("--")), every_word)


_CODE = _risky("ceEprPiIMmnWX", "--eval --print --require --import --loader --command --inspect eval")
_VI = _risky("cSsWwuU", "--cmd --startuptime")
_PROGRAMS: dict[str, Risky] = {
    "git": _risky(
        "",
        "--output --ext-diff --textconv --no-index --exec --exec-path --upload-pack --receive-pack --config "
        "--config-env --open-files-in-pager --extcmd --output-directory --template --git-dir --work-tree "
        "--separate-git-dir --tree-filter --index-filter --msg-filter --env-filter --commit-filter "
        "config bisect foreach filter-branch difftool mergetool instaweb daemon credential hook send-email "
        "web--browse bundle remote-ext upload-archive",
    ),
    "find": _risky("", "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"),
    "fd": _risky("xX", "--exec --exec-batch"),
    "sort": _risky("oT", "--output --compress-program --temporary-directory"),
    "shuf": _risky("o", "--output"),
    "rg": _risky("", "--pre --hostname-bin"),
    "ag": _risky("", "--pager"),
    "ack": _risky("", "--pager --output"),
    "tar": _risky(
        "IF",
        "--use-compress-program --to-command --checkpoint-action --rsh-command --rmt-command --info-script "
        "--new-volume-script",
    ),
    "zip": _risky("T", "--unzip-command --test"),
    "split": _risky("", "--filter"),
    "ssh": _risky("oFESDLRwI"),
    "scp": _risky("SoFJ"),
    "sftp": _risky("SoFbD"),
    "rsync": _risky("eM", "--rsh --rsync-path --log-file --write-batch --remote-option"),
    "vim": _VI,
    "emacs": _risky("fl", "--eval --funcall --load --execute --script"),
    "less": _risky("oOk", "--log-file --LOG-FILE --lesskey-file --lesskey-src"),
    "man": _risky("PHCE", "--pager --html --config-file"),
    "info": _risky("o", "--output"),
    "python": _risky("c"),
    "perl": _CODE,
    "ruby": _CODE,
    "node": _CODE,
    "php": _risky("rBREd", "--run --process-begin --process-code --process-end --define"),
    "lua": _risky("el"),
    "curl": _risky(
        "oODcKTJ",
        "--output --remote-name --remote-name-all --output-dir --dump-header --cookie-jar --config "
        "--upload-file --trace --trace-ascii --stderr --libcurl --etag-save --hsts --alt-svc --write-out "
        "--remote-header-name --create-dirs",
    ),
    "wget": _risky(
        "OoaPei",
        "--output-document --output-file --append-output --directory-prefix --execute --use-askpass "
        "--config --save-cookies --warc-file --post-file --body-file --input-file",
    ),
    "sdiff": _risky("o", "--output --diff-program"),
    "diff3": _risky("", "--diff-program"),
    "patch": _risky("o", "--output"),
    "npm": _risky("cC", "--call --script-shell --node-options --prefix --userconfig --globalconfig exec x"),
    "make": _risky("fCIE", "--eval --file --makefile --directory --include-dir"),
    "cargo": _risky("ZC", "--config --manifest-path --target-dir"),
    "go": _risky(
        "o",
        "-exec -toolexec -vettool -overlay -modfile -ldflags -gcflags -C -cpuprofile -memprofile -trace "
        "-coverprofile -outputdir -fuzzcachedir generate run tool",
    ),
    "pytest": _risky(
        "pco",
        "--rootdir --confcutdir --override-ini --junitxml --junit-xml --log-file --pdbcls --basetemp "
        "--pastebin --cov-report --cov-config --debug --import-mode --pythonwarnings",
    ),
    "mypy": _risky(
        "", "--config-file --python-executable --install-types --cache-dir --junit-xml --html-report"
    ),
    "ruff": _risky("o", "--output-file --config"),
    "eslint": _risky(
        "ocf", "--output-file --config --rulesdir --resolve-plugins-relative-to --format --parser"
    ),
    "tsc": _risky("pb", "--outFile --outDir --project --build --generateTrace --generateCpuProfile"),
    "prettier": _risky("", "--plugin --config"),
    "jq": _risky("fL", "--from-file"),
    "yq": _risky("is", "--inplace --split-exp"),
    "tree": _risky("oR", "--output"),
    "date": _risky("s", "--set"),
    "file": _risky("Cm", "--compile --magic-file"),
    "iconv": _risky("o", "--output"),
    "xxd": _risky("r"),
    "bat": _risky("", "--pager"),
    "svn": _risky("", "--diff-cmd --diff3-cmd --editor-cmd --config-dir --config-option"),
    "hg": _risky("", "--config --config-file"),
    "pip": _risky(
        "rcet",
        "--log --cache-dir --target --report --prefix --root --python --requirement --editable install",
    ),
    "gdb": _risky("x", "-ex -iex -x --command --eval-command --init-eval-command"),
    "openssl": _risky("", "-out -engine -config -provider -provider-path"),
    "gpg": _risky("o", "--output --log-file --keyserver-options --options"),
    "xmllint": _risky("o", "--output --shell"),
    "pandoc": _risky("oF", "--output --filter --lua-filter --extract-media --pdf-engine --defaults"),
    "dot": _risky("oO"),
    "sqlite3": _risky("", "-cmd -init"),
    "psql": _risky("coLf", "--command --output --log-file --file"),
    "mysql": _risky("e", "--execute --pager --tee"),
    "helm": _risky("", "--post-renderer"),
    "gh": _risky("", "api alias extension"),
    "docker": _risky("H", "--host --config"),
    "kubectl": _risky("", "--kubeconfig exec cp"),
    "strace": _risky("o", "--output"),
    # Builtins that set variables of the shell, or evaluate text.
    "printf": _risky("v"),
    "wait": _risky("p"),
    "hash": _risky("p"),
    "enable": _risky("f"),
    "complete": _risky("CF"),
    "bind": _risky("x"),
    **dict.fromkeys(
        "read mapfile readarray declare typeset local readonly export let unset getopts eval source . trap "
        "alias shopt set".split(),
        _risky(every_word=True),
    ),
}
_PROGRAMS.update(dict.fromkeys(("vi", "nvim", "view", "ex", "gvim", "vimdiff"), _VI))
_PROGRAMS.update(dict.fromkeys(("perl5", "nodejs", "bun", "deno", "rscript"), _CODE))
_PROGRAMS.update(dict.fromkeys(SHELLS, _risky("c", "--rcfile --init-file")))
_ALIASES = {
    "fdfind": "fd",
    "gfind": "find",
    "gsort": "sort",
    "gmake": "make",
    "pnpm": "npm",
    "yarn": "npm",
    "podman": "docker",
    "py.test": "pytest",
    "batcat": "bat",
    "pip3": "pip",
}
_PROGRAMS.update((alias, _PROGRAMS[name]) for alias, name in _ALIASES.items())

# Short options of single git subcommands; elsewhere the letters are harmless.
_GIT_LETTERS = {"rebase": "x", "grep": "O", "clone": "uc", "archive": "o", "format-patch": "o", "init": "c"}
# Any other subcommand may be an alias, a `git-NAME` on PATH, or write where an argument says.
_GIT_KNOWN = frozenset(
    "add am annotate apply archive blame branch cat-file check-ignore checkout cherry cherry-pick clean "
    "clone commit commit-tree count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref "
    "format-patch fsck gc grep init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull "
    "push range-diff rebase reflog remote reset restore rev-list rev-parse revert rm shortlog show "
    "show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index var "
    "verify-commit verify-tag version whatchanged worktree".split()
)
# Subcommands whose own options are all harmless; a word that the shell expands may be one of them.
_GIT_PLAIN = frozenset("add commit rm mv checkout switch restore reset branch tag merge stash status".split())
_RUN_PLUS = frozenset("vim vi view ex nvim gvim less more".split())  # +COMMAND
_MAKE_VARIABLE = re.compile(r"[\w.]+[+:?!]*=", re.ASCII)
_AWK = frozenset("awk gawk mawk nawk".split())
_AWK_SAFE = re.compile(r"[^|>@]*", re.DOTALL)
_LONGEST_SCRIPT = 1000
_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/)"
_SED_PART = r"(?:(?!(?P=d{0}))[^\\\n]|\\.)*"
_SED_SUBSTITUTE = r"s(?P<d{0}>[/|#,:!@])" + _SED_PART + r"(?P=d{0})" + _SED_PART + r"(?P=d{0})[gpiI0-9]*"
_SED_COMMAND = r"\s*(?:{a}(?:,[+~]?{a})?)?\s*!?\s*(?:[pdq=]|{s})\s*"


def _sed_script(commands: int) -> re.Pattern[str]:
    parts = [_SED_COMMAND.format(a=_SED_ADDRESS, s=_SED_SUBSTITUTE.format(n)) for n in range(commands)]
    return re.compile(parts[0] + "".join(f"(?:;{part})?" for part in parts[1:]) + ";?")


_SED_SAFE = _sed_script(4)
_SED_OPTIONS = re.compile(
    r"-[nEruzs]+|--(?:quiet|silent|regexp-extended|null-data|separate|unbuffered)|-e|--expression"
)


def risky_words(words: Sequence[str]) -> frozenset[int]:
    """The indexes of words that a star must not stand for."""
    return frozenset(_find(words, 0))


def _find(words: Sequence[str], start: int) -> Iterator[int]:
    """Look through the command at `start`, and the ones that wrappers run."""
    while start < len(words):
        command = words[start:]
        name = re.sub(r"^(?:python|pypy)[\d.]*$", "python", program_name(words[start]))
        name = re.sub(r"^(?:gtar|bsdtar)$", "tar", name)
        for at in _of_program(name, command):
            yield start + at
        if not is_wrapper(command):
            return
        inner = wrapped_at(command)
        if inner is None:  # any word may begin a command
            yield from range(start + 1, len(words))
            return
        start += inner
        if start < len(words):
            yield start


def _of_program(name: str, words: Sequence[str]) -> Iterator[int]:
    if name == "python" and words[1:2] == ("-m",) and len(words) > 2:
        yield from (at + 2 for at in _of_program(program_name(words[2]), words[2:]))
    if name in ("test", "["):
        yield from (at for at, word in enumerate(words) if word in ("-v", "-R"))
    elif name == "sed":
        yield from _of_sed(words)
    elif name in _AWK:
        yield from _of_awk(words)
    if name in ("uniq", "xxd"):  # the second operand is written
        operands = [at for at, word in enumerate(words[1:], 1) if not word.startswith("-")]
        yield from operands[1:]
    if name in _PROGRAMS:
        yield from _of_table(name, _PROGRAMS[name], words)


def _of_table(name: str, risky: Risky, words: Sequence[str]) -> Iterator[int]:
    subcommand = next((word for word in words[1:] if not word.startswith("-")), "") if name == "git" else ""
    letters = risky.letters + _GIT_LETTERS.get(subcommand, "")
    before_subcommand = name == "git"
    for at, word in enumerate(words[1:], 1):
        before_subcommand = before_subcommand and word != subcommand
        is_unknown = name == "git" and word == subcommand and without_markers(word) not in _GIT_KNOWN
        if risky.every_word or is_unknown or (before_subcommand and word.startswith(("-c", "-C"))):
            yield at
        elif name == "tar" and at == 1 and not word.startswith("-") and set(word) & set(letters):
            yield at  # the old notation of options: tar xIf
        elif EXPANSIONS.match(word) and word[1:2] in "$*?[" and subcommand not in _GIT_PLAIN:
            yield at  # it may expand to an option
        elif _is_risky(risky, letters, without_markers(word), is_git=name == "git"):
            if not word.startswith("-") and name == "git" and word != subcommand and word != "foreach":
                continue
            yield at
        elif (name == "make" and _MAKE_VARIABLE.match(word)) or (name in _RUN_PLUS and word.startswith("+")):
            yield at


def _is_risky(risky: Risky, letters: str, word: str, *, is_git: bool) -> bool:
    if word in risky.words:
        return True
    name = word.partition("=")[0]
    if name.removeprefix("-") in risky.words and name.startswith("--"):
        return True  # go, openssl and others take one dash or two
    if word.startswith("--"):  # programs take an unambiguous beginning of a long option
        return len(name) > 2 and any(option.startswith(name) for option in risky.options)
    if word.startswith("-"):
        return name in risky.words or any(letter in word for letter in letters)
    return False


def _of_sed(words: Sequence[str]) -> Iterator[int]:
    has_script = False
    expects_script = False
    for at, word in enumerate(words[1:], 1):
        if expects_script or (not has_script and not word.startswith("-")):
            has_script, expects_script = True, False
            if len(word) > _LONGEST_SCRIPT or not _SED_SAFE.fullmatch(word):
                yield at
        elif word.startswith("-") and word != "-":
            if not _SED_OPTIONS.fullmatch(word):
                yield at
            expects_script = word in ("-e", "--expression")


def _of_awk(words: Sequence[str]) -> Iterator[int]:
    has_program = False
    takes_value = False
    for at, word in enumerate(words[1:], 1):
        if takes_value:
            takes_value = False
        elif word.startswith("-") and word != "-" and not has_program:
            takes_value = word in ("-F", "-v")
            if not word.startswith(("-F", "-v")):
                yield at
        elif not has_program:
            has_program = True
            if (
                not _AWK_SAFE.fullmatch(word)
                or "system" in word
                or "getline" in word
                or EXPANSIONS.search(word)
            ):
                yield at
