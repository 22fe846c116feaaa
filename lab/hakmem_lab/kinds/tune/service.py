"""What to put where a program is started: the environment of an arm, for systemd and for a shell."""

import shlex
from collections.abc import Mapping, Sequence

from hakmem_lab.plan import project

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}
UNLOADED = ("default", "glibc")  # allocators that are there without being loaded


def environment(arm: Mapping, others: str | None, brought: bool = False) -> dict[str, str]:
    """The variables of an arm as a header records it. others: what is preloaded whatever the allocator; brought: the
    program has another allocator than that of the C library, which takes its place only where it is preloaded."""
    variables = dict(arm["variables"])
    library = None
    if arm["library"] and (brought or arm["allocator"] not in UNLOADED):
        library = str(project.located(arm["library"]).absolute())
    words = (library, others if library else None, variables.pop("LD_PRELOAD", None))
    preload = ":".join(word for word in words if word)
    return ({"LD_PRELOAD": preload} if preload else {}) | variables


def systemd(variables: Mapping[str, str]) -> str:
    """A line of a unit's [Service] section: systemd.exec(5), Environment=; quoting as in systemd.syntax(7)."""
    return "Environment=" + " ".join(_quoted(f"{name}={value}") for name, value in variables.items())


def _quoted(assignment: str) -> str:
    return f'"{"".join(_ESCAPED.get(c, c) for c in assignment)}"'


def shell(variables: Mapping[str, str], command: Sequence[str]) -> str:
    """The same in front of a command."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(command)])
