"""Which module imports which, read from the source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Import:
    """One import: `target` is the module, or module and name where the name may be a submodule."""

    module: str
    target: str
    line: int
    in_function: bool
    for_types: bool  # under `if TYPE_CHECKING`: never run

    def __str__(self) -> str:
        return f"{self.module} line {self.line} imports {self.target}"

    def is_of(self, package: str) -> bool:
        return self.target == package or self.target.startswith(package + ".")


def sources(package: str) -> dict[str, Path]:
    """Dotted name of every module of a package of this repository, and its file."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(package: str) -> list[Import]:
    """Every import in a package of this repository."""
    return [found for name, path in sources(package).items() for found in _imports(name, path)]


def public_definitions(module: str) -> set[str]:
    """Functions and classes that a module defines itself, without those whose names begin with `_`."""
    path = sources(module.partition(".")[0])[module]
    defined = ast.FunctionDef | ast.ClassDef
    names = {node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, defined)}
    return {name for name in names if not name.startswith("_")}


def _imports(module: str, path: Path) -> Iterator[Import]:
    base = module if path.name == "__init__.py" else module.rpartition(".")[0]
    todo: list[tuple[ast.AST, bool, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), False, False)]
    while todo:
        node, in_function, for_types = todo.pop()
        for target in _targets(node, base):
            yield Import(module, target, node.lineno, in_function, for_types)  # type: ignore[attr-defined]
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            typed = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and child in node.body
            todo.append((child, inside, for_types or typed))


def _targets(node: ast.AST, base: str) -> list[str]:
    match node:
        case ast.Import(names):
            return [name.name for name in names]
        case ast.ImportFrom(module, names, level):
            parents = base.split(".")[: len(base.split(".")) - level + 1] if level else []
            origin = ".".join([*parents, *([module] if module else [])])
            return [f"{origin}.{name.name}" for name in names]
        case _:
            return []
