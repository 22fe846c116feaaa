"""Instructions that callgrind has counted, on the terminal."""

from hakmem_lab.show.terminal import STYLES, output, table_of
from hakmem_lab.store.results import Result, Share


def show_share(result: Share) -> None:
    console = output()
    console.print(result["answer"])
    columns = ("allocator", "instructions", "inside the allocator", "share", "calls")
    rows = ([arm["name"], f"{arm['instructions']:,}", f"{arm['inside']:,}", f"{100 * arm['share']:.2f} %",
             f"{arm['calls']:,}"] for arm in result["arms"])  # fmt: skip
    console.print(table_of("", columns, rows))


def show_instructions(result: Result) -> None:
    console, verdict = output(), str(result["verdict"])
    console.print(verdict, style=STYLES[verdict], end="  ")
    console.print(result["answer"])
    rows = [[arm["name"], f"{arm['instructions']:,}"] for arm in result["arms"]]
    columns = ["side", "one run"]
    if result["arms"][0]["per_op"] is not None:
        columns.append("per operation")
        rows = [[*row, f"{arm['per_op']:,.2f}"] for row, arm in zip(rows, result["arms"], strict=True)]
    console.print(table_of("Instructions", columns, rows))
