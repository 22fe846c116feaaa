"""Where the relative paths of a suite begin: in the present folder, else beside its spec, else in the folder above."""

from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.plan import project


@dataclass(frozen=True)
class Places:
    """folders: where a path is looked for that does not exist in the present one, in this order."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, source: str) -> "Places":
        """source: the spec's file, as the user or a stored run names it."""
        folder = project.located(source).resolve().parent
        return cls((folder, folder.parent))

    def path(self, name: str) -> str:
        """A path where there is something; else the name as it is."""
        if Path(name).exists():
            return name
        return next((str(folder / name) for folder in self.folders if (folder / name).exists()), name)

    def word(self, word: str) -> str:
        """A word of a command: with a slash inside it may be a relative path."""
        return self.path(word) if "/" in word and not word.startswith("/") else word

    def command(self, words: list[str]) -> list[str]:
        return [self.word(word) for word in words]

    def arm(self, text: str) -> str:
        """An arm, whose allocator may be the path of a library."""
        allocator, comma, settings = text.partition(",")
        return self.word(allocator) + comma + settings
