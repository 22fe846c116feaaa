"""`hak metrics`: the heap of a process as OpenMetrics text, once or for a scraper."""

import http.server
import socket
import sys
from typing import Annotated

import typer

from hakmem_lab.errors import LabError

PATHS = ("/metrics", "/")
PATIENCE_S = 5  # with a scraper that says nothing: others wait meanwhile


def register(app: typer.Typer) -> None:
    app.command()(metrics)


def metrics(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A process")],
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", help="Answer a scraper there, at /metrics, for as long as the process runs"
        ),
    ] = None,
) -> None:
    """The heap of a process as OpenMetrics text; read from outside, the process does nothing."""
    from hakmem_lab.inside import explain
    from hakmem_lab.show import openmetrics

    def read() -> str:
        return openmetrics.heap_text(explain.process(pid))

    first = read()  # before anybody asks, what cannot be read is said here
    if listen is None:
        sys.stdout.write(first)
        return
    _serve(_address(listen), read, openmetrics.CONTENT_TYPE)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise LabError(f"--listen: '{text}' is no address: give a port such as 9464, or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _serve(address: tuple[str, int], read, content_type: str) -> None:
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
                if isinstance(error, Gone):  # else the next reading may do
                    self.server.ended = error  # type: ignore[attr-defined]
            self.send_response(status)
            self.send_header("Content-Type", content_type if status == 200 else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a scraper asks for ever."""

    class Server(http.server.HTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        ended: LabError | None = None

        def handle_error(self, request: object, client_address: object) -> None:
            """Nothing: a scraper has hung up."""

    try:
        server = Server(address, Handler)
    except OSError as error:
        raise LabError(f"--listen: {address[0]}:{address[1]} cannot be used: {error.strerror or error}") from None
    with server:
        print(f"http://{address[0]}:{server.server_port}/metrics", flush=True)
        while server.ended is None:
            server.handle_request()
    raise server.ended
