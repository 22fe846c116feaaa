"""The groups of the package are layers: a module imports only from its own group and from those below it.

The table in lab/README.md gives the order of the groups.
"""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hakmem_lab

ROOT = Path(hakmem_lab.__file__).parent
README = Path(__file__).parents[2] / "README.md"
LAYERS = re.findall(r"^\| `(\w+)/?` \|", README.read_text(encoding="utf-8"), re.M)[::-1]  # the lowest first
NAME = hakmem_lab.__name__


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Without __main__.py, an entry point that imports cli/main.py from outside the layers.
MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__main__.py"}


def imports(node: ast.AST) -> Iterator[str]:
    """Modules of the package that the code imports, including imports in functions and those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] == NAME:
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in MODULES else str(child.module)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name.partition(".")[0] == NAME)
        yield from imports(child)


def read(module: str) -> list[str]:
    return list(imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def layer(module: str) -> int:
    """The layer of a module's group. The package itself, which offers only its version, is below all groups."""
    return -1 if module == NAME else LAYERS.index(module.split(".")[1])


def test_every_module_has_its_layer():
    assert sorted({module.split(".")[1] for module in MODULES if module != NAME}) == sorted(LAYERS)


# The package itself is an entry point outside the layers: it imports show/library.py at its first use.
@pytest.mark.parametrize("module", [module for module in MODULES if module != NAME])
def test_a_module_imports_only_what_is_below(module):
    above = [found for found in read(module) if layer(found) > layer(module)]
    assert above == []


def test_there_is_no_ring_of_imports():
    graph = {module: set(read(module)) for module in MODULES}
    graph[NAME] = set()
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("hakmem_lab.errors") < order.index("hakmem_lab.kinds") < order.index("hakmem_lab.cli.main")


def test_what_functions_import_is_seen():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hakmem_lab.cli import main\n"
    source += "def f():\n    from hakmem_lab.store import query\n    import hakmem_lab.errors\n"
    found = ["hakmem_lab.cli.main", "hakmem_lab.store.query", "hakmem_lab.errors"]
    assert list(imports(ast.parse(source))) == found


def test_no_module_knows_the_packages_beside_this_one():
    named = [module for module, path in MODULES.items() if "hakmem_fleet" in path.read_text(encoding="utf-8")]
    assert named == []


def test_without_them_the_commands_are_there_all_the_same():
    script = (
        "import importlib.metadata as metadata\n"
        "metadata.entry_points = lambda **_: []\n"
        "from hakmem_lab.cli.commands import overview\n"
        "assert 'hak tune' in overview(every=True) and 'hak fleet' not in overview(every=True)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# Each of these folders counts as one part: the recorder's files share a thread's state, the replay's that of a run.
ONE_PART = ("recorder", "replay")
FOLDERS = {path.parent for path in ROOT.rglob("*.c")} - {ROOT / "trace" / "native" / name for name in ONE_PART}
NATIVE = sorted(folder for folder in FOLDERS if len(list(folder.glob("*.c"))) > 1)


def calls(folder: Path) -> dict[str, set[str]]:
    """File -> the other files in its folder whose functions it names."""
    texts = {
        path.name: re.sub(r'//[^\n]*|"(?:\\.|[^"\\])*"', "", path.read_text("utf-8")) for path in folder.glob("*.c")
    }
    defined = re.compile(r"^(?!static)[a-z_][\w *]*?\b(\w+)\([^;{]*\)\s*\{", re.M)
    home = {name: file for file, text in texts.items() for name in defined.findall(text)}
    return {
        file: {home[word] for word in re.findall(r"\w+", text) if home.get(word, file) != file}
        for file, text in texts.items()
    }


@pytest.mark.parametrize("folder", NATIVE, ids=lambda folder: folder.name)
def test_there_is_no_ring_of_calls_between_files_in_c(folder):
    order = list(graphlib.TopologicalSorter(calls(folder)).static_order())
    assert len(order) == len(list(folder.glob("*.c")))


def test_calls_between_files_in_c_are_seen(tmp_path):
    (tmp_path / "a.c").write_text(
        "int one(void) {\n  return two(1); // three()\n}\nstatic int own(void) {\n  return 0;\n}\n"
    )
    (tmp_path / "b.c").write_text(
        'int two(int n) {\n  return own(n) + printf("one");\n}\nint three(void) {\n  return 3;\n}\n'
    )
    assert calls(tmp_path) == {"a.c": {"b.c"}, "b.c": set()}
