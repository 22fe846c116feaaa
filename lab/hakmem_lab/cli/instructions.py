"""`hak ab --callgrind` and `hak run --callgrind`: instructions counted, shown and written as JSON."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem_lab.run.callgrind import find_valgrind, total, traced
from hakmem_lab.show import emit
from hakmem_lab.show import terminal as tables
from hakmem_lab.system import signals


def show(result: dict, json_file: Path | None) -> None:
    """On the terminal, or as one JSON object."""
    if json_file is not None:
        emit.write_object(result, json_file)
        if str(json_file) == "-":
            return
    console = tables.output()
    console.print(result["verdict"], style=tables.STYLES[result["verdict"]], end="  ", markup=False)
    console.print(result["headline"], markup=False)
    each = result["arms"][0]["per_op"] is not None
    table = tables.new_table("Instructions", "arm", "one run", *(["per operation"] if each else []))
    for arm in result["arms"]:
        tables.add_row(table, arm["name"], f"{arm['instructions']:,}", *([f"{arm['per_op']:,.2f}"] if each else []))
    console.print(table)


def run(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program in the foreground, says on standard error what it needed; its exit status."""
    with tempfile.TemporaryDirectory(prefix="hak-") as folder:
        words = traced(find_valgrind(), argv, Path(folder))
        with signals.held():  # until there is somebody to hand them on to
            process = subprocess.Popen(words, env=env, preexec_fn=signals.die_with_parent)  # noqa: PLW1509 (there are no threads)
            with signals.handed_on(process.pid):
                status = process.wait()
        found = total(Path(folder), process.pid)
    said = "counted nothing: the program was killed, or became another one" if found is None else f"{found:,}"
    print(f"hak: instructions: {said}", file=sys.stderr)
    return 128 - status if status < 0 else status
