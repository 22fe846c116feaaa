"""Reads a report's HTML strictly, with the standard library's parser, and collects its elements and its mistakes."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
FETCHING = {"img", "iframe", "object", "embed", "audio", "video", "source", "track", "frame", "base", "form"}

Attributes = dict[str, str]


class Page(HTMLParser):
    """`mistakes` is empty for a page that is well formed, accessible in structure, and loads nothing."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.mistakes: list[str] = []
        self.elements: list[tuple[str, Attributes]] = []
        self.text: dict[int, str] = {}
        self._open: list[int] = []
        self._pieces: list[str] = []
        self._first_piece: dict[int, int] = {}
        self.feed(text)
        self.close()
        self.mistakes += [f"<{self.elements[i][0]}> is not closed" for i in self._open]
        self._check_ids()
        self._check_headings()
        self._check_alternatives()
        self._check_loads()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.mistakes.append(f"<{tag}> has an attribute twice")
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.text[len(self.elements) - 1] = ""
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)
            self._first_piece[self._open[-1]] = len(self._pieces)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self.elements[self._open[-1]][0] != tag:
            self.mistakes.append(f"</{tag}> closes nothing")
            return
        index = self._open.pop()
        self.text[index] = "".join(self._pieces[self._first_piece[index] :])

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)

    def all(self, tag: str, **having: str) -> list[tuple[Attributes, str]]:
        """Attributes and text of every element with this tag and these attributes (write `_` for `-`)."""
        wanted = {name.replace("_", "-"): value for name, value in having.items()}
        return [
            (attributes, self.text[index])
            for index, (name, attributes) in enumerate(self.elements)
            if name == tag and all(attributes.get(key) == value for key, value in wanted.items())
        ]

    def _check_ids(self) -> None:
        ids = Counter(attributes["id"] for _, attributes in self.elements if "id" in attributes)
        self.mistakes += [f"id {each} is there twice" for each in sorted(ids) if ids[each] > 1]
        for tag, attributes in self.elements:
            wanted = f"{attributes.get('aria-labelledby', '')} {attributes.get('aria-describedby', '')}".split()
            for value in attributes.values():
                wanted += re.findall(r"url\(#([^)]*)\)", value)
            if attributes.get("href", "").startswith("#"):
                wanted.append(attributes["href"][1:])
            self.mistakes += [f"<{tag}> refers to #{each}, which is not there" for each in wanted if each not in ids]

    def _check_headings(self) -> None:
        levels = [int(tag[1]) for tag, _ in self.elements if re.fullmatch("h[1-6]", tag)]
        if levels.count(1) != 1 or levels[0] != 1:
            self.mistakes.append(f"there must be one h1, first: {levels}")
        for before, after in itertools.pairwise(levels):
            if after > before + 1:
                self.mistakes.append(f"an h{after} follows an h{before}")

    def _check_alternatives(self) -> None:
        for index, (tag, attributes) in enumerate(self.elements):
            inside = [name for name, _ in self.elements[index + 1 : index + 4]]
            if tag == "svg" and attributes.get("aria-hidden") != "true":
                if attributes.get("role") != "img" or inside[:2] != ["title", "desc"]:
                    self.mistakes.append("an svg has no title and description")
                elif not self.text[index + 1].strip() or not self.text[index + 2].strip():
                    self.mistakes.append("an svg has an empty title or description")
            if tag == "img" and not attributes.get("alt"):
                self.mistakes.append("an img has no alt")
            if tag == "table" and (inside[0] != "caption" or not self.text[index + 1].strip()):
                self.mistakes.append("a table has no caption")
            if tag == "th" and attributes.get("scope") not in ("col", "row"):
                self.mistakes.append("a th has no scope")

    def _check_loads(self) -> None:
        for tag, attributes in self.elements:
            if tag in FETCHING or "src" in attributes or "srcset" in attributes:
                self.mistakes.append(f"<{tag}> loads something")
            if tag == "link" and attributes.get("href") != "data:,":
                self.mistakes.append("a link loads something")
            if tag == "script" and attributes.get("type") != "application/json":
                self.mistakes.append("a script can run")
            self.mistakes += [f"<{tag}> has {name}" for name in attributes if name.startswith("on")]
            self.mistakes += [f"<{tag}>: {v}" for v in attributes.values() if re.search(r"url\((?!#)", v)]
        for _, style in self.all("style"):
            if re.search(r"url\(|@import|https?:", style):
                self.mistakes.append("the style sheet loads something")
