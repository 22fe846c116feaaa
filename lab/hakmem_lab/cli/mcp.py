"""`hak mcp`: the laboratory for agents, by the Model Context Protocol over standard input and output.

Each tool runs a command of `hak` with --json in a process of its own. So an agent gets the same answers and the same
error messages as a user. Cancelling a tool interrupts its run like any other; it can be resumed.
"""

import json
import signal
import subprocess
import sys
from typing import Any

import typer

from hakmem_lab import __version__, extras

ABOUT = """\
Finds out by measurement whether a change, or another memory allocator, makes a program faster or leaner.
One call of is_better answers "is my change better?": `answer` is the sentence for the user, `verdict` is GO (better),
NO-GO (worse), NEUTRAL (no difference that matters) or INCONCLUSIVE. Do not measure the same question twice; go_on
prolongs a run at the same error rate. Measure nothing else on the machine meanwhile."""
Words = list[str]
GRACE_S = 20.0


async def _hak(*words: str) -> dict[str, Any]:
    """The JSON of a command. Raises ToolError with its message."""
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError

    command = [sys.executable, "-m", "hakmem_lab.cli.main", *words]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        parts: dict[str, bytes] = {"out": b"", "err": b""}

        async def collect(name: str, stream: Any) -> None:
            async for chunk in stream:
                parts[name] += chunk

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(collect, "out", process.stdout)
                group.start_soon(collect, "err", process.stderr)
            status = await process.wait()
        except anyio.get_cancelled_exc_class():
            process.send_signal(signal.SIGINT)
            with anyio.CancelScope(shield=True), anyio.move_on_after(GRACE_S):
                await process.wait()
            raise
    if not parts["out"].strip():
        said = parts["err"].decode(errors="replace").strip().splitlines() or [f"hak ended with {status}"]
        raise ToolError(said[-1].removeprefix("hak: "))
    return json.loads(parts["out"])


def _flags(metric: str | None, margin: str, quick: bool, limits: Words) -> Words:
    """The flags that is_better and compare_allocators share."""
    found = ["--json", "-", "--quiet", "--margin", margin, *(["--quick"] if quick else [])]
    found += ["--metric", metric] if metric else []
    return found + [word for limit in limits for word in ("--guardrail", limit)]


async def is_better(
    before: str, after: str, command: Words | None = None, metric: str | None = None, higher_is_better: bool = False,
    margin: str = "1%", limits: Words | None = None, max_blocks: int = 40, quick: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Is the change better? A verdict with its interval, from interleaved runs.

    Without command: before and after are two command lines, such as './old args' and './new args'. With command (a
    list of words): before and after are allocators that it runs on, such as glibc, hakmem, jemalloc, ./lib.so or
    hakmem,NAME=VALUE. metric: wall, cpu, rss, faults, allocated, calls or regex:PATTERN on the output (default: cpu
    for a program with one busy thread, otherwise wall). limits: metrics that must not get worse by more, such as
    'rss=10%'. quick: a first estimate within 30 s in place of a verdict.
    """
    words = ["compare", *_flags(metric, margin, quick, limits or []), "--max-blocks", str(max_blocks)]
    words += ["--higher-is-better"] if higher_is_better else []
    if command is None:
        return await _hak(*words, "--commands", before, after)
    return await _hak(*words, "--control", before, "--treatment", after, "--", *command)


async def compare_allocators(
    command: Words, allocators: Words | None = None, server: str | None = None, metric: str | None = None,
    margin: str = "1%", quick: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Time, CPU time, memory and page faults of a program on several allocators, against glibc.

    server: a command with {port}, of which command is the client. metric: also after-load, 30 s after the client's end,
    and growth. quick: first estimates within about 30 s.
    """
    words = ["compare", *_flags(metric, margin, quick, [])]
    words += ["--allocators", *allocators] if allocators else []
    return await _hak(*words, *(["--server", server] if server else []), "--", *command)


async def check_program(command: Words) -> dict[str, Any]:
    """Can a preloaded allocator serve this program, and if not, why not and what to do?"""
    return await _hak("doctor", "--json", "-", "--", *command)


async def explain_memory(pid: int) -> dict[str, Any]:
    """Where the resident memory of a process on hakmem goes, by owner, and what to do about the largest wastes."""
    return await _hak("heap", "explain", "--json", "-", str(pid))


async def show_run(run: str = "last") -> dict[str, Any]:
    """The result of a stored run: its id, the beginning of it, or last."""
    return await _hak("runs", "show", run, "--json", "-")


async def go_on(run: str = "last", more_blocks: int = 0) -> dict[str, Any]:
    """Continue a run that was quick, cancelled or not decided."""
    more = ["--more", str(more_blocks)] if more_blocks else []
    return await _hak("runs", "resume", run, "--json", "-", "--quiet", *more)


TOOLS = (is_better, compare_allocators, check_program, explain_memory, show_run, go_on)


def mcp() -> None:
    """Serve agents by the Model Context Protocol, on standard input and output."""
    extras.need("mcp", "hak mcp")
    from mcp.server.mcpserver import MCPServer

    if sys.stdin.isatty():
        print("hak: waiting for an agent on standard input; add `hak mcp` to its configuration", file=sys.stderr)
    server = MCPServer("hakmem laboratory", version=__version__, instructions=ABOUT, log_level="ERROR")
    for tool in TOOLS:
        server.tool()(tool)
    server.run("stdio")


def register(app: typer.Typer) -> None:
    app.command("mcp")(mcp)
