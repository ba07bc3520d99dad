"""Layering that import-linter does not see: modules named in strings, cycles, full folders, private reach, files."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection

import pytest

from tests.house.files import SOURCE, modules, nodes

pytestmark = pytest.mark.house

_MODULE = re.compile(r"relight(?:\.[a-z_]+)+")


def _is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _named(tree: ast.Module) -> set[str]:
    """Modules of ours that strings of a file name, in full or as one word of a command line."""
    texts = (node.value for node in nodes(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text for text in texts if _MODULE.fullmatch(text) and _is_module(text)}


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_string_names_a_module_past_the_layers() -> None:
    """A module in a string is an import that import-linter cannot see. It may be an entry point of a process, or be
    imported for the type checker in the same file; wiring, the package itself and the demo import everything anyway,
    and the registry of agents names its own."""
    anything = ("src/relight/wiring.py", "src/relight/__init__.py", "src/relight/demo/")
    past = {
        f"{name}: {module}"
        for name, _, tree in modules(only_source=True)
        if not name.startswith(anything)
        for module in _named(tree) - _imported(tree)
        if not module.startswith("relight.processes.")
        and not name.startswith(f"src/{module.replace('.', '/')}/")
        and not (module.startswith("relight.agents.") and name == "src/relight/agents/registry.py")
        and not (module.startswith("relight.cli") and name.startswith("src/relight/cli/"))
    }
    assert past == set()


def _packages() -> dict[str, ast.Module]:
    """Module name to tree, for all of src/relight."""
    found = {}
    for name, _, tree in modules(only_source=True):
        dotted = name.removeprefix("src/").removesuffix(".py").replace("/", ".")
        found[dotted.removesuffix(".__init__")] = tree
    return found


def _imports(tree: ast.Module, known: Collection[str]) -> set[str]:
    """Modules of ours that a module imports, wherever in it: late, or for the type checker only, too."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {one if one in known else node.module for one in inner}
    return found & set(known)


def test_no_modules_import_each_other() -> None:
    """Imports under TYPE_CHECKING and inside functions count: two modules that need each other are one, or a third."""
    trees = _packages()
    waits = {name: _imports(tree, trees) - {name} for name, tree in trees.items()}
    while free := {name for name, needs in waits.items() if not needs & waits.keys()}:
        waits = {name: needs for name, needs in waits.items() if name not in free}
    # What is left imports a module of a cycle, or is in one; the latter are also imported by what is left.
    while outer := waits.keys() - {one for needs in waits.values() for one in needs}:
        waits = {name: needs for name, needs in waits.items() if name not in outer}
    assert {name: needs & waits.keys() for name, needs in waits.items()} == {}


MAX_MODULES = 20


def test_no_folder_is_too_full_to_find_something_in() -> None:
    folders = Counter(name.rpartition("/")[0] for name, _, _ in modules(only_source=True) if "__init__" not in name)
    assert {folder: number for folder, number in folders.items() if number > MAX_MODULES} == {}


MAX_PRIVATE = 40


def test_private_members_are_hardly_used_from_outside() -> None:
    """`other._member`, where other is neither self nor cls; what namedtuple calls so is public."""
    public = {"_replace", "_asdict", "_fields", "_make"}
    used = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, _, tree in modules(only_source=True)
        for node in nodes(tree)
        if isinstance(node, ast.Attribute)
        and re.fullmatch(r"_[a-z]\w*", node.attr)
        and node.attr not in public
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]
    assert len(used) <= MAX_PRIVATE, used
    # The entry points use the library as any program does: of an open store they know its public names alone.
    entries = re.compile(r"src/relight/(?:cli|server|frameworks|demo|hooks|processes)/.* (?:self\._?)?rl\._")
    assert [one for one in used if entries.match(one)] == []


WITHOUT_FILES = ("sessions", "history", "supervision", "operations")
LOOKING = {
    "src/relight/history/fork.py": "a free name for the directory of a fork",
    "src/relight/supervision/adopt.py": "whether the directory of a native session is still there",
}
_OF_OS = re.compile(
    r"chmod|link|listdir|lstat|makedirs|mkdir|open|readlink|remove|rename|replace|rmdir|scandir|stat|symlink|truncate"
    r"|unlink|utime|walk"
)
_OF_OS_PATH = re.compile(r"exists|getmtime|getsize|isdir|isfile|islink|lexists|realpath|samefile")
_OF_PATHS = re.compile(
    r"exists|glob|is_dir|is_file|is_symlink|iterdir|mkdir|(?:read|write)_(?:bytes|text)|rglob|rmdir|touch|unlink"
)


def _touches_files(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    room, _, last = name.rpartition(".")
    if room in ("os", "os.path"):
        return (_OF_OS if room == "os" else _OF_OS_PATH).fullmatch(last) is not None
    return name == "open" or (isinstance(call.func, ast.Attribute) and _OF_PATHS.fullmatch(last) is not None)


def test_rooms_that_claim_to_reach_the_world_through_ports_call_no_file_system() -> None:
    rooms = tuple(f"src/relight/{room}/" for room in WITHOUT_FILES)
    touched = {
        name
        for name, _, tree in modules(only_source=True)
        if name.startswith(rooms)
        for node in nodes(tree)
        if isinstance(node, ast.Call) and _touches_files(node)
    }
    assert touched == set(LOOKING)
