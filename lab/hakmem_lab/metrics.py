"""What a run yields: a metric by its name in a spec, read from a finished run. Imports errors and launcher."""

import math
import re
from dataclasses import dataclass

from .errors import LabError
from .launcher import Outcome

UNITS = {
    "wall": "s",
    "cpu": "s",
    "rss": "KiB",
    "rss-mean": "KiB",
    "faults": "",
    "server-cpu": "s",
    "server-rss": "KiB",
    "server-rss-mean": "KiB",
}


# With a server, these are the server's: its client runs on no arm.
OF_SERVER = {"cpu": "cpu_s", "rss": "rss_peak_kib", "rss-mean": "rss_mean_kib"}


class MetricMissing(LabError):
    """A run ended well, but the metric cannot be read from it."""


@dataclass(frozen=True)
class Metric:
    name: str
    higher_is_better: bool = False

    @property
    def unit(self) -> str:
        return UNITS.get(self.name, "")

    @property
    def label(self) -> str:
        return f"output matching {self.name[6:]}" if self.name.startswith("regex:") else self.name

    def record(self) -> dict:
        return {"name": self.name, "unit": self.unit, "higher_is_better": self.higher_is_better}

    def read(self, outcome: Outcome, server: dict | None = None) -> float:
        """The value, above 0 for everything that a ratio can be made of. Raises MetricMissing."""
        if self.name.startswith("regex:"):
            return self._match(outcome.stdout + "\n" + outcome.stderr)
        if server is not None and self.name.removeprefix("server-") in OF_SERVER:
            value = server.get(OF_SERVER[self.name.removeprefix("server-")])
        elif self.name == "faults":
            value = outcome.minor_faults + outcome.major_faults
        else:
            value = {
                "wall": outcome.wall_s,
                "cpu": outcome.cpu_s,
                "rss": outcome.rss_peak_kib,
                "rss-mean": outcome.rss_mean_kib,
            }[self.name]
        if value is None or value <= 0:
            raise MetricMissing(f"metric '{self.name}' could not be measured: the run was too short to be sampled")
        return float(value)

    def _match(self, text: str) -> float:
        """The last match: programs report their total at the end."""
        found = re.findall(self.name[6:], text, re.M)
        if not found:
            tail = " ".join(text.split())[-160:]
            raise MetricMissing(f"metric '{self.name}' does not match the program's output: ...{tail!r}")
        try:
            value = float(found[-1].replace(",", ""))
        except ValueError:
            raise MetricMissing(f"metric '{self.name}' matched {found[-1]!r}, which is not a number") from None
        if not (value > 0 and math.isfinite(value)):
            raise MetricMissing(f"metric '{self.name}' matched {found[-1]}; only a finite number above 0 makes a ratio")
        return value
