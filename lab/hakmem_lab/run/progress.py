"""What a long command says while it runs, on standard error: where it is and how long it still takes.

On a terminal one line is rewritten; elsewhere a line is written now and then.
"""

import sys
import time

QUIET_LINE_S = 30.0


def duration(seconds: float) -> str:
    """For people: '4 s', '3 min 20 s', '2 h 05 min'."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Progress:
    """Counts units of work (blocks, seconds) against a total."""

    def __init__(self, stream=None, quiet: bool = False):
        self._stream, self._quiet = stream or sys.stderr, quiet
        self._live = not quiet and self._stream.isatty()
        self._said = self._begun = time.monotonic()
        self._first: float | None = None
        self._reached, self._spoke = 0.0, False

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._clear()
            print(text, file=self._stream, flush=True)

    def update(self, done: float, total: float, note: str = "") -> None:
        """done of total units; the first call sets where counting begins."""
        self._show(done, total, f"{done:g} of {total:g}", note)

    def share(self, fraction: float, note: str = "") -> None:
        """For work whose units are not known beforehand: the part that is done, which never goes back."""
        self._reached = max(self._reached, min(1.0, fraction))
        self._show(self._reached, 1.0, f"{100 * self._reached:.0f} %", note)

    def _show(self, done: float, total: float, text: str, note: str) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._begun = done, now
        gained = done - self._first
        text += f", {note}" if note else ""
        if done >= total:
            text += f", took {duration(now - self._begun)}" if gained > 0 else ""
        elif gained > 0:
            text += f", about {duration((now - self._begun) / gained * (total - done))} left"
        if self._live:
            self._stream.write("\r\033[K" + text[:200])
            self._stream.flush()
        elif not self._quiet and (now - self._said > QUIET_LINE_S or (self._spoke and done >= total)):
            self._said, self._spoke = now, done < total
            print(text, file=self._stream, flush=True)

    def restart(self) -> None:
        """The next update begins a new count."""
        self._first, self._reached = None, 0.0
        self._clear()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\033[K")
            self._stream.flush()
