"""Packages and programs that only some commands need, and that are not installed with hak itself.

The table mirrors the extras of pyproject.toml: extra -> (module, package) of each package.
"""

import importlib.util
import shutil
import sys

from hakmem_lab.errors import LabError

EXTRAS = {
    "fleet": (("distributed", "distributed"),),
    "latency": (("hdrh", "hdrhistogram"), ("ruptures", "ruptures")),
    "mcp": (("mcp", "mcp"),),
    "report": (("jinja2", "jinja2"), ("tomli_w", "tomli-w")),
    "soak": (("ruptures", "ruptures"),),
    "sql": (("duckdb", "duckdb"),),
}


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [package for module, package in EXTRAS[extra] if importlib.util.find_spec(module) is None]


def need(extra: str, what: str) -> None:
    """Raises LabError, with the command that installs them, if packages of the extra are missing."""
    if packages := missing(extra):
        raise LabError(f"{what} needs packages that hak does not bring; install them: {install_line(packages)}")


def tool(name: str, what: str) -> str:
    """The path of this program. Raises LabError, with the command that installs it, if it is missing."""
    found = shutil.which(name)
    if found is None:
        raise LabError(f"{what} needs {name}: install it (Debian: apt-get install {name})")
    return found


def install_line(packages: list[str]) -> str:
    return f"{sys.executable} -m pip install {' '.join(packages)}"
