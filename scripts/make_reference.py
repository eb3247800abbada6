"""Writes docs/reference/*.md: every public name with its signature and docstring, one page per package.

Run it after a change of a signature or docstring, and read the diff. Annotations are shown as they
stand in the source, so that every version of Python makes the same pages.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PAGES = ROOT / "docs" / "reference"
PACKAGES = ("agent", "agent.providers", "agent.testing", "agent_tools")
# Special methods that users call implicitly; those without a docstring behave as usual.
_OPERATORS = ("__call__", "__iter__", "__len__", "__contains__", "__getitem__", "__add__", "__enter__")
_WIDTH = 100


# Aliases of the code that a reader of the reference would have to look up.
_ALIASES = {"JsonObject": "dict[str, Any]", "JsonMapping": "Mapping[str, Any]"}


def page(package_name: str) -> str:
    """The page of a package, as Markdown."""
    package = importlib.import_module(package_name)
    homes: dict[str, list[str]] = {}
    for name in package.__all__:
        homes.setdefault(_home(package, name), []).append(name)
    sections = [
        "<!-- Made by scripts/make_reference.py (`make reference`). -->",
        f"# The names of {package_name}",
        f"Every name here is imported from `{package_name}`; the headings say where it is written.",
        "\n".join(_contents(homes)),
    ]
    for home in sorted(homes):
        module = importlib.import_module(home)
        sections += [f"## {home}", inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]]
        for name in sorted(homes[home], key=_place_in(home).index):
            sections += _entry(module, name, getattr(package, name))
    text = "\n\n".join(section for section in sections if section) + "\n"
    for alias, meaning in _ALIASES.items():
        text = text.replace(alias, meaning)
    return text


def files() -> dict[Path, str]:
    """Every file that is made, with its content."""
    return {PAGES / f"{name}.md": page(name) for name in PACKAGES}


def _contents(homes: dict[str, list[str]]) -> Iterator[str]:
    for home in sorted(homes):
        names = sorted(homes[home], key=_place_in(home).index)
        links = " ".join(f"[{name}](#{name.lower()})" for name in names)
        yield f"- [{home}](#{home.replace('.', '')}): {links}"


def _home(package: ModuleType, name: str) -> str:
    """The module that a name is defined in; a constant or an alias does not know its own."""
    top = package.__name__.partition(".")[0]
    known = [
        package.__dict__.get("_HOMES", {}).get(name),
        getattr(getattr(package, name), "__module__", None),
    ]
    loaded = [other for other in sorted(sys.modules) if other.startswith(f"{package.__name__}.")]
    ours = [home for home in [*known, *loaded] if home and home.startswith(top)]
    return str(next(home for home in ours if name in _place_in(home)))


@cache
def _tree(module: str) -> ast.Module:
    file = importlib.import_module(module).__file__
    return ast.parse(Path(file).read_text("utf-8") if file and file.endswith(".py") else "")


def _place_in(module: str) -> list[str]:
    """The names that a module defines, in the order of its source."""
    names = []
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names += [target.id for target in _targets(node) if isinstance(target, ast.Name)]
    return names


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _entry(module: ModuleType, name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isfunction(value):
        yield _code(f"{name}{_signature(value)}")
        yield _doc(value)
    else:
        yield from _assigned(module.__name__, name)


def _class(name: str, cls: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    has_arguments = inspect.isfunction(getattr(cls, "__init__", None))  # not one that is built in
    yield _code(f"class {name}{_signature(cls, returns=False)}" if has_arguments else f"class {name}")
    yield f"A kind of {bases}." if bases else ""
    yield _doc(cls)
    for member_name, member in vars(cls).items():
        if not member_name.startswith("_") or (member_name in _OPERATORS and member.__doc__):
            yield from _member(name, member_name, member, vars(cls).get("__annotations__", {}))


def _member(owner: str, name: str, member: Any, annotations: dict[str, str]) -> Iterator[str]:
    if isinstance(member, property):
        kind = "" if member.fset else "  # read only"
        returns = inspect.signature(member.fget).return_annotation if member.fget else ""
        yield f"#### {owner}: {name}"
        yield _code(f"{name}: {_annotation(returns)}{kind}")
        yield _doc(member)
    elif isinstance(member, staticmethod | classmethod) or inspect.isfunction(member):
        function = getattr(member, "__func__", member)
        is_made_by_class = isinstance(member, staticmethod | classmethod)
        yield f"#### {owner}: {name}"
        yield _code(
            f"{f'{owner}.' if is_made_by_class else ''}{name}"
            f"{_signature(function, bound=not isinstance(member, staticmethod))}"
        )
        yield _doc(function)

    elif hasattr(type(member), "__set__") and not inspect.ismemberdescriptor(member):
        yield f"#### {owner}: {name}"
        yield _code(f"{name}: {_first_parameter(annotations.get(name, ''))}")
        yield _doc(member)


def _first_parameter(annotation: str) -> str:
    """`A` of a descriptor annotated as `Setting[A, B]`: the type that is read."""
    tree = ast.parse(annotation, mode="eval").body
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple):
        return ast.unparse(tree.slice.elts[0])
    return annotation


def _assigned(module: str, name: str) -> Iterator[str]:
    """A constant or an alias: its source, and the string below it."""
    body = _tree(module).body
    source = Path(importlib.import_module(module).__file__ or "").read_text("utf-8")
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in map(ast.unparse, _targets(node)):
            yield _code(ast.get_source_segment(source, node) or "")
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                yield inspect.cleandoc(str(after.value.value))


def _doc(value: Any) -> str:
    """Its own docstring; the one that a dataclass gets by itself says nothing new."""
    text = inspect.cleandoc(value.__doc__ or "")
    return "" if inspect.isclass(value) and text.startswith(f"{value.__name__}(") else text


def _code(text: str) -> str:
    return f"```py\n{text}\n```"  # not "python": blocks of that name are run by the tests


def _signature(value: Any, *, bound: bool = False, returns: bool = True) -> str:
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    factories = _factories(value)
    words: list[str] = []
    for number, parameter in enumerate(parameters):
        before = parameters[number - 1].kind if number else None
        if before is parameter.POSITIONAL_ONLY and parameter.kind is not before:
            words.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            words.append("*")
        words.append(_parameter(parameter, factories))
    end = f" -> {_annotation(signature.return_annotation)}" if returns else ""
    line = f"({', '.join(words)}){end}"
    if len(line) <= _WIDTH - len(getattr(value, "__name__", "")) - len("class "):
        return line
    return "(\n" + textwrap.indent(",\n".join(words), "    ") + f",\n){end}"


def _factories(value: Any) -> dict[str, str]:
    """What makes the default of a field, as a call."""
    if not dataclasses.is_dataclass(value):
        return {}
    made: dict[str, Any] = {field.name: field.default_factory for field in dataclasses.fields(value)}
    return {
        name: f"{factory.__name__}()"
        for name, factory in made.items()
        if factory is not dataclasses.MISSING and factory.__name__ != "<lambda>"
    }


def _parameter(parameter: inspect.Parameter, factories: dict[str, str]) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {_default(parameter.name, parameter.default, factories)}"


def _default(name: str, value: Any, factories: dict[str, str]) -> str:
    if repr(value) == "<factory>":
        return factories.get(name, "...")
    if inspect.isroutine(value):
        return value.__name__
    kind: Any = type(value)
    if hasattr(kind, "__dataclass_fields__") and value == kind():
        return f"{kind.__name__}()"
    return "..." if " at 0x" in repr(value) else repr(value)


def _annotation(annotation: Any) -> str:
    if annotation is None or annotation is inspect.Signature.empty:
        return "None"
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def main() -> int:
    made = files()
    PAGES.mkdir(parents=True, exist_ok=True)
    for path, content in made.items():
        if not path.exists() or path.read_text("utf-8") != content:
            path.write_text(content, "utf-8")
            print(path.relative_to(ROOT))
    for path in set(PAGES.glob("*.md")) - made.keys():
        path.unlink()
        print(f"{path.relative_to(ROOT)} is no more")
    return 0


if __name__ == "__main__":
    sys.exit(main())
