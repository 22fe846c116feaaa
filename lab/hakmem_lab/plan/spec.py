"""The keys of a spec, which says what to measure. They are also the flags of the commands.

A spec is TOML; every kind has its model. A mistake ends in one message that names file, key and the nearest name.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    field_validator,
    model_serializer,
    model_validator,
)

from hakmem_lab.errors import nearest
from hakmem_lab.plan import model, peers
from hakmem_lab.plan.metrics import COUNTERS, LEAST, METRICS, SERVER_METRICS, Metric
from hakmem_lab.plan.model import Model, Sparse
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.schedule import MEASURES, ONE_BY_ONE, TOGETHER
from hakmem_lab.plan.values import (
    check_environment,
    check_price,
    check_text,
    check_timeout,
    check_title,
    parse_command,
    parse_duration_s,
    parse_ratio,
    parse_step,
)

build, read_toml = model.build, model.read_toml
FACTOR_SIGNS, NO_FACTOR = "+×", "(none)"
LONGEST_S = 366 * 86400.0
LEAST_ALPHA = 1e-6
# Longer than the delay after which any of the allocators that hak knows gives memory back (jemalloc: twice 10 s).
AFTER_S = 30.0
MOST_SEED = 2**63 - 1
NAMING = ("label", "unit", "price")  # only words: a run with others measures the same


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises ValueError."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the regular expression is not valid: {error}") from None


def check_metric(value: str) -> str:
    """Returns the metric, or raises ValueError."""
    if value.startswith("regex:"):
        if compiled(value[6:]).groups != 1:
            raise ValueError("the regular expression needs exactly one group, the number, in parentheses")
        return value
    if value not in (*METRICS, *SERVER_METRICS):
        raise ValueError(f"no metric '{value}': {nearest(value, (*METRICS, *SERVER_METRICS, 'regex:...'))}")
    return value


def check_alone(asked: Sequence[str]) -> None:
    """Raises ValueError if a metric that takes executions of its own is not that of the verdict, the first one."""
    if LEAST in asked and asked[0] != LEAST:
        raise ValueError(f"'{LEAST}' takes executions under limits of memory: it can only be the metric of the verdict")


def refuse_duet(value: Any) -> bool:
    """Accepts the value false, which stored specs of earlier versions have."""
    if value not in (False, "false"):
        raise ValueError("both sides at once took longer for the same interval; leave it out, and the sides take turns")
    return False


Ratio = Annotated[float, BeforeValidator(parse_ratio), Field(gt=0, lt=1)]
Duration = Annotated[float, BeforeValidator(parse_duration_s), Field(gt=0, le=LONGEST_S)]
Timeout = Annotated[Duration, AfterValidator(check_timeout)]
Alpha = Annotated[float, Field(ge=LEAST_ALPHA, lt=0.5)]
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Word = Annotated[str, AfterValidator(check_text)]
Command = Annotated[list[Word], BeforeValidator(parse_command), Field(min_length=1)]
Step = Annotated[list[Word], BeforeValidator(parse_step), Field(min_length=1)]
Environment = Annotated[dict[str, Word], AfterValidator(check_environment)]
Title = Annotated[str, AfterValidator(check_title)]
Requests = Annotated[int, Field(ge=1)] | None
Port = Annotated[int, Field(ge=1, le=65535)]
MetricName = Annotated[str, AfterValidator(check_metric)]
ScheduleName = Literal["auto", "together", "turns", "one-by-one"]
NoDuet = Annotated[Literal[False], BeforeValidator(refuse_duet)]


class Server(Model):
    """A program that runs while the command, its client, runs. {port} stands for its port in both commands."""

    command: Command
    port: Port | Literal["auto"] = "auto"
    ready_timeout: Duration = 10.0
    warm_up: Command | None = None  # client to run before the server's peak memory is reset
    pin: list[int] = []


class Guardrail(Model):
    """A tolerated worsening: `"5%"` of a cost, or `{ limit = "5%", higher-is-better = true }` of a rate."""

    limit: Ratio
    higher_is_better: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict | Guardrail) else {"limit": value}

    @model_serializer
    def _shortest(self) -> float | dict:
        """The short form in which users write it, so that a stored spec looks like theirs."""
        return {"limit": self.limit, "higher-is-better": True} if self.higher_is_better else self.limit


def check_guardrails(value: dict[str, Guardrail]) -> dict[str, Guardrail]:
    """Returns the guardrails, or raises ValueError where one is no metric."""
    for name in value:
        check_metric(name)
    return value


Guardrails = Annotated[dict[str, Guardrail], AfterValidator(check_guardrails)]


class ProgramKeys(Model):
    """The program that is run."""

    command: Command
    env: Environment = {}
    cwd: Word | None = None
    stdin: Word | None = None
    pin: list[int] = []
    timeout: Timeout = 300.0


class RunKeys(Sparse):
    """What is measured of a run, in a comparison and in a row of a suite. label, unit: name and unit of the metric.
    check: command that reads what an execution printed, and fails where that is wrong. schedule: whether the arms of a
    block run at the same time; auto: where the metric and the program allow it. after: time between the end of the load
    and the reading of memory. requests: how many one run serves, for growth per 1,000 of them.
    """

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = ("check", "after", "requests")
    metric: MetricName = "wall"
    label: Title = ""
    unit: Title = ""
    higher_is_better: bool = False
    schedule: ScheduleName = "auto"
    repeat: Annotated[int, Field(ge=1, le=1000)] | Literal["auto"] = "auto"
    guardrails: Guardrails = {}
    server: Server | None = None
    check: Step | None = None
    after: Duration = AFTER_S
    requests: Requests = None


class CommonSpec(ProgramKeys):
    """The keys of every kind. DRAWS_SEEDS: {seed} in a command is drawn. OWN_AA: an A/A of the same program should come
    first."""

    DRAWS_SEEDS: ClassVar[bool] = True
    OWN_AA: ClassVar[bool] = True
    kind: str
    question: str = ""
    seed: Seed | None = None

    def unjudged(self) -> str:
        """Why a run has no verdict of the whole; empty if it has one."""
        return ""

    def program(self) -> Path:
        """The path of the command's program. Raises LabError where there is none."""
        return find_program(self.command[0])


class BlockSpec(RunKeys, CommonSpec):
    """The keys of the kinds that run arms in blocks. setup: command that is run once before the first run; cleanup:
    after the last one; prepare: before every execution. None of these is measured. expect_exit: the exit codes of a
    successful run. price: of saved memory.
    """

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = (
        *NAMING, "rare", "expect_exit", "setup", "prepare", "cleanup", "schedule", *RunKeys.ONLY_IF_GIVEN,
    )  # fmt: skip
    margin: Ratio = 0.01
    alpha: Alpha = 0.05
    looks: Annotated[int, Field(ge=1, le=5)] = 3
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 60
    rare: Ratio | None = None
    expect_exit: Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(min_length=1)] = [0]
    warm_up: Annotated[int, Field(ge=0, le=100)] = 1
    also: list[MetricName] = []
    setup: Step | None = None
    prepare: Step | None = None
    cleanup: Step | None = None
    price: Annotated[str, AfterValidator(check_price)] | None = None

    @model_validator(mode="after")
    def _server_metrics(self) -> "BlockSpec":
        asked = (self.metric, *self.guardrails, *self.also)
        used = [name for name in asked if name in SERVER_METRICS]
        if used and self.server is None:
            raise ValueError(f"the metric '{used[0]}' needs a [server]")
        if self.server is not None and (used := [name for name in asked if name in ("faults", *COUNTERS)]):
            raise ValueError(f"the metric '{used[0]}' is not counted for a [server]")
        check_alone(asked)
        return self

    @model_validator(mode="after")
    def _shared(self) -> "BlockSpec":
        if self.schedule == TOGETHER and self.server is not None:
            raise ValueError("a [server] and its client cannot run 'together' with the other sides: schedule = 'turns'")
        if self.schedule in MEASURES and self.prepare:
            raise ValueError(f"'prepare' runs before each execution of a side, and '{self.schedule}' all run at once")
        if self.metric not in MEASURES.get(self.schedule, [self.metric]):
            raise ValueError(f"'{self.metric}' cannot be measured while the other sides run: schedule = '{ONE_BY_ONE}'")
        return self

    def primary_metric(self) -> Metric:
        return primary_of(normalised(self))

    def guardrail_metrics(self) -> list[Metric]:
        """The metrics of the guardrails, each in its own direction; the primary metric in the direction of the spec."""
        return list(guardrails_of(normalised(self)))


class CommandsSpec(BlockSpec):
    """commands: take the place of allocators; each command is an arm with its own allocator. quick: end with the first
    estimate; the trial of each arm then is its warm-up. beside_load, precondition: also repeat the verdict under that
    condition. history: a trace that is replayed to make the used heap."""

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = (
        *BlockSpec.ONLY_IF_GIVEN, "commands", "quick", "beside_load", "precondition", "history",
    )  # fmt: skip
    commands: list[Command] = []
    quick: bool = False
    beside_load: bool = False
    precondition: bool = False
    history: Word | None = None
    ARMS: ClassVar[dict[str, Any]] = {}  # keys that `commands` replaces -> their value then

    @model_validator(mode="before")
    @classmethod
    def _quickly(cls, value: Any) -> Any:
        return {"warm-up": 0} | value if isinstance(value, dict) and value.get("quick") else value

    @model_validator(mode="before")
    @classmethod
    def _recorded(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(trace := value.get("history"), str):
            return value
        if not Path(trace).is_file():
            raise ValueError(f"history: there is no trace '{trace}'; one is made by: hak record -o {trace} -- COMMAND")
        return value | {"precondition": True, "history": str(Path(trace).absolute())}

    @model_validator(mode="before")
    @classmethod
    def _commands(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(given := value.get("commands"), list) or not given:
            return value
        if taken := [key for key, own in cls.ARMS.items() if value.get(key, own) != own]:
            raise ValueError(f"commands run on what they bring: they and '{taken[0]}' do not go together")
        if parse_command(value.get("command", given[0])) != parse_command(given[0]):
            raise ValueError("the sides are either 'commands' or one 'command' on several allocators")
        if value.get("server") is not None:
            raise ValueError("with a [server] the sides run the same command: 'commands' do not go with it")
        return cls.ARMS | value | {"command": given[0]}


class AbSpec(CommandsSpec):
    """builds: in runs of earlier versions, number of builds of each arm, with the functions in random order."""

    kind: Literal["ab"] = "ab"
    duet: NoDuet = False
    control: str
    treatment: str
    detect: Ratio | None = None
    builds: Annotated[int, Field(ge=1, le=1000)] = 1

    ARMS: ClassVar[dict[str, Any]] = dict.fromkeys(("control", "treatment"), "default")
    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = (*CommandsSpec.ONLY_IF_GIVEN, "builds")

    @field_validator("commands")
    @classmethod
    def _two(cls, value: list) -> list:
        if len(value) not in (0, 2):
            raise ValueError(f"an A/B has two, the control first, not {len(value)}; for more there is: hak compare")
        return value


class BaselineSpec(BlockSpec):
    """Compares several allocators with one of them, the baseline."""

    allocators: Annotated[list[str], Field(min_length=2)] = [*peers.COMPARED]
    baseline: str | None = None
    detect: Ratio | None = None

    def unjudged(self) -> str:
        count = len(getattr(self, "commands", ()) or self.allocators)
        return f"with {count} sides each has a verdict of its own; name two" if count > 2 else ""


class CompareSpec(BaselineSpec, CommandsSpec):
    """names: those of the sides, where they are commands."""

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = (*CommandsSpec.ONLY_IF_GIVEN, "names")
    ARMS: ClassVar[dict[str, Any]] = {"allocators": ["default", "default"]}
    kind: Literal["compare"] = "compare"
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 20
    looks: Literal[1] = 1
    names: list[Title] = []

    @model_validator(mode="after")
    def _named(self) -> "CompareSpec":
        if self.names and self.commands and len(self.names) != len(self.commands):
            raise ValueError(f"{len(self.commands)} commands have {len(self.names)} names")
        return self


class MatrixSpec(BlockSpec):
    """base: the arm with every factor off. factors: name -> settings that switch it on, NAME=VALUE[,NAME=VALUE...]."""

    kind: Literal["matrix"] = "matrix"
    base: str = "hakmem"
    factors: Annotated[dict[str, str], Field(min_length=2, max_length=5)]
    detect: Ratio | None = None
    looks: Literal[1] = 1

    def unjudged(self) -> str:
        return "a run of the kind matrix has none"

    @field_validator("factors")
    @classmethod
    def _factors(cls, value: dict[str, str]) -> dict[str, str]:
        """Cells and interactions are named by joining the names of factors."""
        for name, setting in value.items():
            if not name.strip() or name == NO_FACTOR or any(sign in name for sign in FACTOR_SIGNS):
                raise ValueError(f"'{name}' cannot be the name of a factor: it is empty, {NO_FACTOR}, or holds + or ×")
            if not re.match(r"[A-Za-z_]\w*=", setting):
                raise ValueError(f"'{setting}' is no setting: a factor is switched on by NAME=VALUE[,NAME=VALUE...]")
        return value


class SweepSpec(BlockSpec):
    """Candidates against the default: select_blocks to choose one, then max_blocks of fresh pairs to confirm it."""

    kind: Literal["sweep"] = "sweep"
    default: str
    candidates: Annotated[dict[str, str], Field(min_length=1)]
    select_blocks: Annotated[int, Field(ge=2, le=10_000)] = 12


def normalised(spec: BaseModel) -> dict:
    """The spec with every default filled in, as it is stored."""
    return spec.model_dump(mode="json", by_alias=True)


def primary_of(stored: dict) -> Metric:
    """The primary metric of a normalised spec."""
    own = stored.get("label", ""), stored.get("unit", ""), stored.get("requests")
    return Metric(stored["metric"], stored["higher-is-better"], *own)


def guardrails_of(stored: dict) -> dict[Metric, float]:
    """Metric -> tolerated worsening (a ratio), from a normalised spec. The primary metric keeps its direction."""
    found = {}
    for name, value in stored.get("guardrails", {}).items():
        guardrail = Guardrail.model_validate(value)
        own = name == stored["metric"]
        other = Metric(name, guardrail.higher_is_better, requests=stored.get("requests"))
        found[primary_of(stored) if own else other] = guardrail.limit
    return found


def beside_of(stored: dict, name: str) -> Metric:
    """A metric of a normalised spec that is measured but not judged."""
    return Metric(name, requests=stored.get("requests"))


def spec_hash(spec: BaseModel) -> str:
    """Hash of everything that decides the measurement, without the label and unit of metrics."""
    asked = {key: value for key, value in normalised(spec).items() if key not in NAMING}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
