"""What to put where a program is started: the environment of an arm, for systemd and for a shell."""

import shlex
from collections.abc import Mapping, Sequence

from hakmem_lab.plan import project

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}
UNLOADED = ("default", "glibc")  # allocators that are there without being loaded


def environment(arm: Mapping, others: str | None, brought: bool = False, now: Mapping | None = None) -> dict[str, str]:
    """The variables of an arm as a header records it. others: what is preloaded whatever the allocator; brought: the
    program has another allocator than that of the C library, which takes its place only where it is preloaded; now:
    the arm that it takes the place of."""
    variables = dict(arm["variables"])
    library = None
    if arm["library"] and (brought or arm["allocator"] not in UNLOADED):
        library = str(project.located(arm["library"]).absolute())
    beside = others if library or (now and now["library"] and now["allocator"] not in UNLOADED) else None
    words = (library, beside, variables.pop("LD_PRELOAD", None))
    preload = ":".join(word for word in words if word)
    return ({"LD_PRELOAD": preload} if preload else {}) | variables


def lines(arm: Mapping, now: Mapping, others: str | None, brought: bool, command: Sequence[str]) -> dict:
    """What takes a service from the arm that it runs on now to another one. systemd: empty where nothing is to be set,
    since a bare Environment= takes away what other lines have set; unset: likewise."""
    variables = environment(arm, others, brought, now)
    gone = [name for name in environment(now, others) if name not in variables]
    return {
        "systemd": systemd(variables) if variables else "",
        "unset": f"UnsetEnvironment={' '.join(gone)}" if gone else "",
        "shell": shell(variables, command, gone),
        "environment": variables,
    }


def systemd(variables: Mapping[str, str]) -> str:
    """A line of a unit's [Service] section: systemd.exec(5), Environment=; quoting as in systemd.syntax(7)."""
    return "Environment=" + " ".join(_quoted(f"{name}={value}") for name, value in variables.items())


def _quoted(assignment: str) -> str:
    return f'"{"".join(_ESCAPED.get(c, c) for c in assignment)}"'


def shell(variables: Mapping[str, str], command: Sequence[str], gone: Sequence[str] = ()) -> str:
    """The same in front of a command."""
    without = " ".join(["env", *(f"-u {name}" for name in gone)]) if gone else ""
    words = [without, *(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(command)]
    return " ".join(word for word in words if word)
