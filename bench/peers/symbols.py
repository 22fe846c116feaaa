"""What a shared library exports, and where its functions jump to. Imports the standard library alone."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\s+(\S+)(?:\s+(.*))?$", re.M)
_DIRECT = re.compile(r"^[0-9a-f]+ <([^>+@]+)(?:@[^>+]*)?(\+0x[0-9a-f]+)?>$")


@dataclass(frozen=True)
class Symbol:
    """A defined function of the dynamic symbol table."""

    address: int
    size: int


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(library: Path) -> dict[str, Symbol]:
    """Functions that a program can be bound to, by name without its version."""
    found = {}
    for line in _output("readelf", "--dyn-syms", "-W", library).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[3] in ("FUNC", "IFUNC") and fields[6] != "UND":
            found[fields[7].partition("@")[0]] = Symbol(int(fields[1], 16), int(fields[2], 0))
    return found


@dataclass(frozen=True)
class Body:
    """The instructions of one function, as far as they tell a shim from an allocator."""

    decides: bool
    targets: tuple[str, ...]


def body(library: Path, symbol: Symbol) -> Body:
    """`decides`: there is a conditional branch; `targets`: names at whose start a direct call or jump goes."""
    text = _output(
        "objdump",
        "-d",
        "--no-show-raw-insn",
        f"--start-address={symbol.address}",
        f"--stop-address={symbol.address + symbol.size}",
        library,
    )
    decides, targets = False, []
    for mnemonic, operands in _INSTRUCTION.findall(text):
        if mnemonic in ("call", "jmp", "b", "bl"):
            direct = _DIRECT.match(operands.strip())
            if direct and not direct.group(2):
                targets.append(direct.group(1))
        elif mnemonic.startswith(("j", "b.", "cb", "tb")):
            decides = True
    return Body(decides, tuple(targets))


def shim_target(library: Path, name: str) -> str | None:
    """The function that an exported one merely passes its call on to; None where it does the work itself.

    A shim goes, without deciding anything, to one other place; or it goes to another function of the interface, which
    has an entry of its own in the table of symbols or in the table of procedure links.
    """
    functions = exported(library)
    own = functions[name]
    code = body(library, own)
    if own.size == 0:
        raise ValueError(f"{library.name} does not say how long {name} is")
    if not code.decides and len(code.targets) == 1:
        return code.targets[0]
    interface = {other for other, symbol in functions.items() if symbol.address != own.address}
    served = (target for target in code.targets if target in interface and "alloc" in target)
    return next((target for target in served if "init" not in target), None)  # what prepares the heap serves nobody
