"""The public surface as its source says it: classes, methods, annotations, and where each name of them comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
RENAMED = {
    ("relight.history.search", "Progress"): "IndexProgress",
    ("relight.bundles.backup", "Progress"): "BackupProgress",
}
"""names that `relight.types` has under another one, because two modules use the same"""
NOUNS = ("sessions", "history", "files", "runs", "queues", "admin")


@dataclass(frozen=True)
class Module:
    """A module's tree, and what its imports bind: name to (module, attribute), attribute "" for a module itself."""

    name: str
    tree: ast.Module
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def classes(self) -> set[str]:
        """Names of the classes it defines."""
        return {one.name for one in self.tree.body if isinstance(one, ast.ClassDef)}

    def named(self, name: str) -> ast.ClassDef | ast.FunctionDef:
        """A class or function at its top."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return node
        raise LookupError(f"{self.name}.{name}")


def read(name: str) -> Module:
    """A module by its dotted name; imports for type checkers count too."""
    path = SOURCE / (name.replace(".", "/") + ".py")
    if not path.exists():
        path = SOURCE / name.replace(".", "/") / "__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = Module(name, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                found.imports[one.asname or one.name.partition(".")[0]] = (one.name, "")
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                is_module = (SOURCE / node.module.replace(".", "/") / f"{one.name}.py").exists()
                where = (f"{node.module}.{one.name}", "") if is_module else (node.module, one.name)
                found.imports[one.asname or one.name] = where
    return found


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The public methods and properties of a class, in order."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            yield one


def is_property(function: ast.FunctionDef) -> bool:
    """Whether it is read without a call."""
    return any(ast.unparse(one) in ("property", "cached_property") for one in function.decorator_list)


def annotated(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Of its arguments and its result."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (one.annotation for one in every if one is not None and one.annotation is not None)
    if function.returns is not None:
        yield function.returns


def origins(module: Module, expression: ast.expr) -> Iterator[tuple[str, str]]:
    """(module, name) of everything of relight that an annotation names."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            where, attribute = module.imports.get(node.value.id, ("", ""))
            if where.startswith("relight.") and not attribute:
                yield where, node.attr
        elif isinstance(node, ast.Name) and node.id in module.imports:
            where, attribute = module.imports[node.id]
            if where.startswith("relight.") and attribute:
                yield where, attribute
        elif isinstance(node, ast.Name) and node.id in module.classes:
            yield module.name, node.id
