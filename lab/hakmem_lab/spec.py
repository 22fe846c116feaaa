"""What to measure: the keys of a spec, which are also the flags of the commands. Imports errors only.

A spec is TOML. Every kind of run has its model; what the block kinds share is in BlockSpec. A mistake ends in one
message that names the file, the key and the nearest valid name, before anything is started.
"""

import hashlib
import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from .errors import LabError, nearest

UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
BUILT_IN_METRICS = ("wall", "cpu", "rss", "rss-mean", "faults")
SERVER_METRICS = ("server-cpu", "server-rss", "server-rss-mean")


def parse_ratio(value: Any) -> Any:
    """'1%' or 0.01 -> 0.01."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip()[:-1]) / 100
    return value


def parse_duration_s(value: Any) -> Any:
    """'90s', '10m', '1h', '250ms' or a number of seconds -> seconds."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m|h)?\s*", value)
        if not found:
            raise ValueError("a duration is written as 250ms, 90s, 10m or 1h")
        return float(found.group(1)) * UNITS_S[found.group(2) or "s"]
    return value


def parse_command(value: Any) -> Any:
    """A list of words, or one string in the quoting of the shell."""
    return shlex.split(value) if isinstance(value, str) else value


def check_metric(value: str) -> str:
    """Returns the metric, or raises ValueError."""
    if value.startswith("regex:"):
        try:
            groups = re.compile(value[6:]).groups
        except re.error as error:
            raise ValueError(f"the regular expression is not valid: {error}") from None
        if groups != 1:
            raise ValueError("the regular expression needs exactly one group, the number, in parentheses")
        return value
    if value not in (*BUILT_IN_METRICS, *SERVER_METRICS):
        raise ValueError(f"no metric '{value}': {nearest(value, (*BUILT_IN_METRICS, *SERVER_METRICS, 'regex:...'))}")
    return value


Ratio = Annotated[float, BeforeValidator(parse_ratio), Field(gt=0, lt=1)]
Duration = Annotated[float, BeforeValidator(parse_duration_s), Field(gt=0)]
Command = Annotated[list[str], BeforeValidator(parse_command), Field(min_length=1)]


class Model(BaseModel):
    """Keys are written with hyphens; unknown ones are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, alias_generator=lambda name: name.replace("_", "-")
    )


class Server(Model):
    """A program that runs while the command, its client, runs. {port} stands for its port in both commands."""

    command: Command
    port: int | Literal["auto"] = "auto"
    ready_timeout: Duration = 10.0
    warm_up: Command | None = None  # a client run before its peak memory is reset and the measured client starts
    pin: list[int] = []


class CommonSpec(Model):
    """What every kind has."""

    kind: str
    question: str = ""
    command: Command
    env: dict[str, str] = {}
    cwd: str | None = None
    pin: list[int] = []
    timeout: Duration = 300.0
    seed: int | None = None

    def program(self) -> Path:
        """The program's file. Raises LabError where there is none."""
        return find_program(self.command[0])


class BlockSpec(CommonSpec):
    """What the kinds have that run arms in blocks."""

    metric: str = "wall"
    higher_is_better: bool = False
    margin: Ratio = 0.01
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    looks: Annotated[int, Field(ge=1, le=5)] = 3
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 60
    warm_up: Annotated[int, Field(ge=0, le=100)] = 1
    repeat: Annotated[int, Field(ge=1, le=1000)] | Literal["auto"] = "auto"
    guardrails: dict[str, Ratio] = {}
    server: Server | None = None

    @field_validator("metric")
    @classmethod
    def _metric(cls, value: str) -> str:
        return check_metric(value)

    @field_validator("guardrails")
    @classmethod
    def _guardrails(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            check_metric(name)
        return value

    @model_validator(mode="after")
    def _server_metrics(self) -> "BlockSpec":
        used = [name for name in (self.metric, *self.guardrails) if name in SERVER_METRICS]
        if used and self.server is None:
            raise ValueError(f"the metric '{used[0]}' needs a [server]")
        return self


class AbSpec(BlockSpec):
    kind: Literal["ab"] = "ab"
    control: str
    treatment: str


class CompareSpec(BlockSpec):
    kind: Literal["compare"] = "compare"
    allocators: Annotated[list[str], Field(min_length=2)] = ["hakmem", "glibc", "mimalloc", "jemalloc", "tcmalloc"]
    baseline: str | None = None
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 20
    looks: Annotated[int, Field(ge=1, le=5)] = 1


class MatrixSpec(BlockSpec):
    """base: the arm with every factor off. factors: name -> settings that switch it on, NAME=VALUE[,NAME=VALUE...]."""

    kind: Literal["matrix"] = "matrix"
    base: str = "hakmem"
    factors: Annotated[dict[str, str], Field(min_length=2, max_length=5)]
    looks: Annotated[int, Field(ge=1, le=5)] = 1


class SweepSpec(BlockSpec):
    """Candidates against the default: select_blocks to choose one, then max_blocks of fresh pairs to confirm it."""

    kind: Literal["sweep"] = "sweep"
    default: str
    candidates: Annotated[dict[str, str], Field(min_length=1)]
    select_blocks: Annotated[int, Field(ge=2, le=10_000)] = 12


class AaSpec(BlockSpec):
    """One arm against itself."""

    kind: Literal["aa"] = "aa"
    allocator: str = "glibc"
    resamples: Annotated[int, Field(ge=200, le=100_000)] = 1000


def find_program(name: str) -> Path:
    """Where a command's program is, as the shell would find it."""
    found = shutil.which(name)
    if found is None:
        raise LabError(f"command: there is no program '{name}'")
    return Path(found).absolute()


def _key(location: tuple) -> str:
    return ".".join(
        str(part) for part in location if not str(part).startswith(("function-", "list[", "literal[", "constrained"))
    )


def _known_keys(model: type[BaseModel], location: tuple) -> list[str]:
    """The keys that are valid where the location's last part stands."""
    if location[:-1] == ("server",):
        model = Server
    return [field.alias or name for name, field in model.model_fields.items()]


def _message(error: dict, model: type[BaseModel]) -> str:
    location = error["loc"]
    key = _key(location)
    if error["type"] == "extra_forbidden":
        return f"unknown key '{key}': {nearest(str(location[-1]), _known_keys(model, location))}"
    if error["type"] == "missing":
        hint = "; it follows -- or stands in a spec" if key == "command" else ""
        return f"'{key}' is missing{hint}"
    text = error["msg"].removeprefix("Value error, ")
    given = error["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    return f"{key}: {text}{shown}" if key else text


def build(model: type[BaseModel], values: dict, source: str) -> Any:
    """A model from its values. `source` is the spec's file or 'command line'. Raises LabError."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # A misspelled key is also a missing one: what was written comes first.
        first = sorted(error.errors(), key=lambda entry: entry["type"] != "extra_forbidden")[0]
        raise LabError(f"{source}: {_message(first, model)}") from None


def read_toml(path: Path) -> dict:
    """Raises LabError that names the file and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = (
            nearest(path.name, [p.name for p in path.parent.glob("*.toml")])
            if path.parent.is_dir()
            else "no such folder"
        )
        raise LabError(f"{path}: there is no such spec; {near}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LabError(f"{path}: {error}") from None


def normalised(spec: BaseModel) -> dict:
    """The spec with every default filled in, as it is stored."""
    return spec.model_dump(mode="json", by_alias=True)


def spec_hash(spec: BaseModel) -> str:
    return hashlib.sha256(json.dumps(normalised(spec), sort_keys=True).encode()).hexdigest()
