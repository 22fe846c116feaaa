"""What a recipe calls, for a look at it without Spack: the directives are remembered, the CMake arguments printed."""

from typing import Any

directives: list[tuple[str, tuple, dict]] = []


def _directive(name: str) -> Any:
    return lambda *words, **named: directives.append((name, words, named))


license, version, variant, depends_on, conflicts = map(
    _directive, ("license", "version", "variant", "depends_on", "conflicts")
)


class CMakePackage:
    def define(self, name: str, value: bool) -> str:
        return f"-D{name}:BOOL={'ON' if value else 'OFF'}"

    def define_from_variant(self, name: str, chosen: str) -> str:
        (default,) = (named["default"] for kind, words, named in directives if kind == "variant" and words == (chosen,))
        return self.define(name, default)
