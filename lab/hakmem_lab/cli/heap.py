"""Where did the memory go?

`hak heap explain`: every resident kilobyte of a process, or of a core file, by owner. `hak heap profile`: the call
stacks that allocated the blocks in use. `hak heap top`: memory by owner, class and thread, live; it can also change
options, with a preview. `hak heap metrics`: the heap as OpenMetrics text, once or for a scraper.
"""

import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli.flags import JsonFile, arms, seconds
from hakmem_lab.errors import LabError, refused

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MEAN_MOST = 1 << 30
PATHS = ("/metrics", "/")
PATIENCE_S = 5  # limit on waiting for a silent scraper: the others wait meanwhile


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)
    app.command("profile", context_settings={"allow_interspersed_args": False})(profile)
    app.command("top")(top)
    app.command("metrics")(metrics)


def explain(
    subject: Annotated[
        str, typer.Argument(metavar="PID | CORE", help="A process, a core file, or a reading that --json wrote")
    ],
    json: JsonFile = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the process while it is read, for an exact picture")
    ] = False,
    diff: Annotated[
        Path | None, typer.Option("--diff", help="Show the changes since this reading (written by --json)")
    ] = None,
    block: Annotated[
        str | None,
        typer.Option("--block", metavar="ADDR", help="Show the block at this address: its class, and if it is live"),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the pictures to this HTML file")] = None,
) -> None:
    """Where the memory of a process went: every resident kilobyte by owner."""
    from hakmem_lab.doctor import live
    from hakmem_lab.inside import explain
    from hakmem_lab.inside.explain import between
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal import process

    if block is not None:
        if json or diff or html:
            raise LabError("--block cannot be combined with --json, --diff or --html")
        process.show_block(explain.block(subject, block, stop))
        return
    before = explain.load(diff, "--diff") if diff else None
    result = explain.take(subject, stop)
    if subject.isdecimal():
        explain.name_allocators(result, live.allocators_inside(int(subject)))
    if before is not None:
        result["diff"] = between(before, result)
    if html is not None:
        from hakmem_lab.show import report

        report.write_reading(result, html, "--html")
    formats.put(result, json, partial(process.show_reading, result))


def mean_of(text: str) -> int:
    """The number of bytes that --rate gives. Raises LabError."""
    digits, unit = (text[:-1], UNITS[text[-1].upper()]) if text[-1:].upper() in UNITS else (text, 1)
    mean = int(digits) * unit if digits.isascii() and digits.isdecimal() else 0
    if not 1 <= mean <= MEAN_MOST:
        raise LabError(f"--rate: '{text}' is no number of bytes from 1 to 1G, such as 512K")
    return mean


def profile(
    subject: Annotated[
        list[str] | None, typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")
    ] = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="*.pb.gz (pprof), *.folded (stacks) or *.txt (a report)"),
    ] = Path("heap.pb.gz"),
    rate: Annotated[str, typer.Option(metavar="BYTES", help="Mean bytes between samples; 1: every block")] = "512K",
    seconds: Annotated[
        float, typer.Option(help="Seconds to sample a process that does not sample yet", min=0, callback=seconds)
    ] = 10,
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=arms)] = "hakmem",
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="Show how profile B differs from profile A; both are *.pb.gz files"),
    ] = None,
) -> None:
    """Which stacks allocated the blocks in use: a heap profile of a process, or of a command when it ends."""
    from hakmem_lab.inside import layout
    from hakmem_lab.inside.profile import forms, take
    from hakmem_lab.trace import attach, sampled

    if diff is not None:
        if subject:
            raise LabError("--diff compares two profile files; name neither a process nor a program")
        typer.echo(forms.changes(*map(forms.read, diff)), nl=False)
        return
    if not subject:
        raise LabError("which process? hak heap profile PID, or hak heap profile -- CMD")
    forms.check(output)
    mean = mean_of(rate)
    status = 0
    if subject[0].isdecimal():
        if len(subject) > 1:
            raise LabError(f"one process at a time: hak heap profile {subject[0]}")
        try:
            found = take.of_process(int(subject[0]), mean, seconds, attach.start_sampling)
        except layout.NotServed:
            typer.echo(
                f"hak: process {subject[0]} does not use hakmem: its calls are sampled for {seconds:g} s", err=True
            )
            found = sampled.profiled(int(subject[0]), mean, seconds)
    else:
        found, status = take.of_command(subject, mean, allocator)
    forms.write(found, output)
    typer.echo(f"{output}: {forms.headline(found)}", err=True)
    if status:
        raise typer.Exit(status)


def top(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A process")],
    interval: Annotated[
        float, typer.Option(help="Seconds from one reading to the next", min=0.1, max=3600, callback=seconds)
    ] = 2.0,
) -> None:
    """Where the memory of a process goes, live; also changes options of the running process."""
    from hakmem_lab.inside.watch import Subject, Watch
    from hakmem_lab.show.terminal import live

    subject = Subject(pid)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LabError(f"hak heap top needs a terminal: without one, hak heap explain {pid} or hak heap metrics {pid}")
    live.show(Watch(subject), interval)


def metrics(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A process")],
    listen: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Serve /metrics at this address while the process runs"),
    ] = None,
) -> None:
    """The heap of a process as OpenMetrics text. It is read from outside: the process takes no part."""
    from hakmem_lab.inside import explain as reading
    from hakmem_lab.show import openmetrics

    def read() -> str:
        return openmetrics.heap_text(reading.process(pid))

    first = read()  # reports an unreadable process before the server starts
    if listen is None:
        sys.stdout.write(first)
        return
    _serve(_address(listen), read, openmetrics.CONTENT_TYPE)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise LabError(f"--listen: '{text}' is no address: give a port such as 9464, or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _serve(address: tuple[str, int], read: Callable[[], str], content_type: str) -> None:
    import http.server

    from hakmem_lab.inside.memory import Gone

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = PATIENCE_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in PATHS:
                self.send_error(404)
                return
            try:
                body, status = read().encode(), 200
            except LabError as error:
                body, status = f"{error}\n".encode(errors="replace"), 503
                if isinstance(error, Gone):  # after any other error the next reading may succeed
                    self.server.ended = error  # type: ignore[attr-defined]
            self.send_response(status)
            self.send_header("Content-Type", content_type if status == 200 else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: a scraper repeats its request forever."""

    class Server(http.server.HTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        ended: LabError | None = None

        def handle_error(self, request: object, client_address: object) -> None:
            """Do nothing: a scraper has closed the connection."""

    with refused(f"--listen: {address[0]}:{address[1]} cannot be used"):
        server = Server(address, Handler)
    with server:
        print(f"http://{address[0]}:{server.server_port}/metrics", flush=True)
        while server.ended is None:
            server.handle_request()
    raise server.ended
