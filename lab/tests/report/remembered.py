"""Pictures that are drawn once for everything that they ask of a run: drawing is nearly all of a page's time.

What a picture asks for is noted while it is drawn. A run that answers the same gets the same picture, with identifiers
of its own. The measured runs and samples must be the same in all runs that are drawn.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.svg import Picture

Draw = Callable[[LoadedRun], Picture | None]


class Noted(dict):
    """Notes in `asked` which keys somebody asks for; who goes through all of them, or counts them, asks for all."""

    def __init__(self, record: dict, asked: set[str]) -> None:
        super().__init__(record)
        self.asked = asked

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.asked.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        self.asked.update(super().keys())
        return super().keys()

    def values(self) -> Any:
        self.asked.update(super().keys())
        return super().values()

    def items(self) -> Any:
        self.asked.update(super().keys())
        return super().items()

    def __len__(self) -> int:
        self.asked.update(super().keys())
        return super().__len__()

    def __bool__(self) -> bool:
        if super().__len__() < 2:  # without one more key it would be empty
            self.asked.update(super().keys())
        return super().__len__() > 0


def noted(value: Any, asked: set[str]) -> Any:
    if isinstance(value, dict):
        return Noted({key: noted(each, asked) for key, each in value.items()}, asked)
    return [noted(each, asked) for each in value] if isinstance(value, list) else value


def answers(run: LoadedRun, asked: set[str]) -> str:
    """What the run answers to that."""

    def only(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: only(each) for key, each in value.items() if key in asked}
        return [only(each) for each in value] if isinstance(value, list) else value

    return json.dumps([only(run.header), only(run.result)])


KEY = "remembered"


class Kept(Picture):
    """A picture that is not made into an element again: only its identifiers are others."""

    def inlined(self, key: str) -> Picture:
        return dataclasses.replace(self, svg=self.svg.replace(f"{KEY}-", f"{key}-"))


def remembered(draw: Draw) -> Draw:
    known: list[tuple[set[str], str, Picture | None]] = []

    def call(run: LoadedRun) -> Picture | None:
        for asked, told, picture in known:
            if answers(run, asked) == told:
                return picture
        asked: set[str] = set()
        seen = dataclasses.replace(run, header=noted(run.header, asked), result=noted(run.result, asked))
        picture = draw(seen)
        kept = picture and Kept(**vars(picture.inlined(KEY)))
        known.append((asked, answers(run, asked), kept))
        return kept

    return call
