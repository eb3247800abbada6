"""Makes a tree like that of a large repository: 50,000 small files, nested .gitignore files, and a log.

python benchmarks/toolbox_gen.py FOLDER [LOG_MEGABYTES]

The same tree every time. About 30,000 of its files count; the others are ignored.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

FILES = 50_000
FOLDERS = (
    *("src", "src/sub1", "src/sub1/deep/er", "src/sub2/a/b", "tests", "docs"),
    *("generated", "node_modules/left/lib", "dist", "tmp-x"),
)
FILES_PER_FOLDER = 25
ENDINGS = [".py"] * 8 + [".ts"] * 4 + [".md"] * 3 + [".json"] * 2 + [".txt", ".log", ".min.js"]
TOP_RULES = (
    "node_modules/\n*.log\n*.pyc\n__pycache__/\n/build/\ndist/\n.env*\n!.env.example\n*.min.js\ntmp-*/\n"
)
PACKAGE_RULES = "generated/\n*.gen.py\n!keep.gen.py\nsub2/**/skip_*.py\n"
STEMS = ("value", "handle", "result", "config", "parser", "buffer", "token", "index", "user", "cache")


def make_tree(root: Path) -> None:
    """Write the 50,000 files below `root`."""
    chance = random.Random(1)
    words = [f"{stem}{number}" for number in range(60) for stem in STEMS]
    lines = [_code_line(chance, words) for _ in range(4000)]
    (root / ".git").mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".gitignore").write_text(TOP_RULES)
    made = package = 0
    while made < FILES:
        folder = root / f"pkg{package:03}"
        folder.mkdir()
        if package % 3 == 0:
            (folder / ".gitignore").write_text(PACKAGE_RULES)
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
            for index in range(min(FILES_PER_FOLDER, FILES - made)):
                body = chance.choices(lines, k=chance.randint(10, 60))
                if made % 250 == 0:
                    body.insert(3, "    x = needle_alpha_omega(1)\n")
                if made % 20 == 0:
                    body.insert(5, f"def process_item_{index}(self, arg):\n")
                (folder / name / _file_name(chance, index)).write_text("".join(body))
                made += 1
        package += 1


def make_log(path: Path, megabytes: int) -> None:
    """Write a log of `megabytes` with one rare line in each 20,000."""
    chance = random.Random(2)
    block = "".join(
        f"2026-01-{number % 28 + 1:02} 10:{number % 60:02}:{number * 7 % 60:02} INFO {chance.choice(STEMS)} "
        f"request id={chance.randrange(10**9)} took {chance.randint(1, 900)} ms path=/api/{number}\n"
        for number in range(20_000)
    ).encode()
    with path.open("wb") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(block)
            file.write(b"2026-02-01 ERROR needle_alpha_omega code=%d\n" % file.tell())


def _code_line(chance: random.Random, words: list[str]) -> str:
    one, two, three, four = chance.choices(words, k=4)
    return f"    {one} = self.{two}({three}, {chance.randint(0, 9999)})  # {four}\n"


def _file_name(chance: random.Random, index: int) -> str:
    special = {3: "skip_3", 0: "mod_0.gen", 9: "mod_9.gen", 18: "mod_18.gen"}
    return special.get(index, f"mod_{index}") + chance.choice(ENDINGS)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    make_tree(target)
    if len(sys.argv) > 2:
        make_log(target.with_name(target.name + ".log"), int(sys.argv[2]))
