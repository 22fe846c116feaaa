"""Which arms are tried: every allocator as it is, and with each value of each of its documented options."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.kinds.tune.spec import DEFAULT, Spec
from hakmem_lab.plan import peers, tunables
from hakmem_lab.plan.arms import Arm, options_of, parse_arm
from hakmem_lab.plan.tunables import Option

LARGE = 64


@dataclass(frozen=True)
class Space:
    """options: of every allocator that is searched; fixed: arms that are tried as they are written; left_out: a line
    for each allocator that cannot be tried; notes: what else a reader should know of the space."""

    options: dict[str, list[Option]]
    fixed: list[str]
    left_out: dict[str, str]
    notes: list[str]

    def size(self) -> int:
        """How many arms there are where options are combined."""
        count = len(self.fixed)
        for options in self.options.values():
            product = 1
            for option in options:
                product *= 1 + len(option.values)
            count += product
        return count

    def singles(self) -> Iterator[str]:
        """Every allocator as it is, then with one option at a time: the first one of each allocator first."""
        yield from self.options
        yield from self.fixed
        rows = [
            [tunables.arm_text(allocator, {option: value}) for option in options for value in option.values]
            for allocator, options in self.options.items()
        ]
        for texts in itertools.zip_longest(*rows):
            yield from filter(None, texts)

    def combinations(self) -> Iterator[str]:
        """Every allocator with every combination of its options."""
        for allocator, options in self.options.items():
            for values in itertools.product(*(("", *option.values) for option in options)):
                chosen = {option: value for option, value in zip(options, values, strict=True) if value}
                yield tunables.arm_text(allocator, chosen)
        yield from self.fixed


def space_of(spec: Spec) -> Space:
    """Raises LabError where a name is none of an allocator."""
    options: dict[str, list[Option]] = {}
    fixed: list[str] = []
    left_out: dict[str, str] = {}
    notes = []
    for text in dict.fromkeys(spec.allocators):
        if text not in peers.names():
            _check_arm(text)
            fixed.append(text)
            continue
        try:
            library = peers.library(text)
        except LabError as error:
            left_out[text] = str(error)
            continue
        options[text] = tunables.options_of(text)
        if text == "hakmem" and library.path:
            known = options_of(library.path)
            options[text] = [option for option in options[text] if option.variable in known]
        if text in tunables.WITHOUT:
            notes.append(f"{text} has no options to try: {tunables.WITHOUT[text]}")
    return Space(options, fixed, left_out, notes)


def _check_arm(text: str) -> None:
    allocator = text.partition(",")[0].strip()
    if "=" not in text and "/" not in text and "@" not in text and ":" not in text:
        raise LabError(f"allocators: there is no allocator '{allocator}': {nearest(allocator, peers.names())}")
    parse_arm(text, where="allocators")


def is_large(spec: Spec, space: Space) -> bool:
    """Whether there are more combinations than are all tried."""
    return spec.combine and space.size() > LARGE


def candidates(spec: Spec, space: Space) -> list[str]:
    """The arms that are tried from the start. Raises LabError where there are none."""
    texts = space.singles()
    if spec.combine:
        texts = iter([*space.options, *space.fixed]) if is_large(spec, space) else space.combinations()
    found = [text for text in dict.fromkeys(texts) if text != spec.default]
    if not found:
        why = "; ".join(space.left_out.values()) or f"only '{spec.default}' itself is named"
        raise LabError(f"allocators: there is nothing to try: {why}")
    return found


def arms(spec: Spec, texts: list[str]) -> list[Arm]:
    """The default first, then the candidates, which are called as they are written."""
    return [parse_arm(spec.default, DEFAULT, "default"), *(parse_arm(text, text, "allocators") for text in texts)]
