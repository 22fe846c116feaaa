"""A cache of drawn pictures, since drawing takes nearly all of a page's time.

The keys that a picture reads are noted while it is drawn. A run with the same values of these keys gets the same
picture, with its own identifiers. All drawn runs must have the same measured runs and samples.
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
    """A dict that notes in `asked` which keys are read; iterating over it or counting its keys notes all of them."""

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
        if super().__len__() < 2:  # so one missing key could change the answer
            self.asked.update(super().keys())
        return super().__len__() > 0


def noted(value: Any, asked: set[str]) -> Any:
    if isinstance(value, dict):
        return Noted({key: noted(each, asked) for key, each in value.items()}, asked)
    return [noted(each, asked) for each in value] if isinstance(value, list) else value


def answers(run: LoadedRun, asked: set[str]) -> str:
    """The run's values for the keys in `asked`, as one text."""

    def only(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: only(each) for key, each in value.items() if key in asked}
        return [only(each) for each in value] if isinstance(value, list) else value

    return json.dumps([only(run.header), only(run.result)])


KEY = "remembered"


class Kept(Picture):
    """A drawn picture that only gets new identifiers when it is put into a page again."""

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
