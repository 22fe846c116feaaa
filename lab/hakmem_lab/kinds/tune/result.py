"""The result of a tuning from its records: the course of the choice, the verdict on the winner, the line to use."""

import shlex
from collections.abc import Mapping, Sequence

from hakmem_lab.designs.candidates import CONFIRM, SELECT, Candidates
from hakmem_lab.judge import two_arms, words
from hakmem_lab.judge.analysis import base_result, metric_of
from hakmem_lab.judge.statistics import paired
from hakmem_lab.judge.statistics.paired import as_log, as_ratio
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.kinds.tune import search
from hakmem_lab.kinds.tune.spec import DEFAULT
from hakmem_lab.plan import project
from hakmem_lab.plan.spec import guardrails_of
from hakmem_lab.store.query import Blocks, events, finished_blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Candidate, Result, RunnerUp, Service, Tune

# Names of the events in a run's file.
LEFT_OUT, GONE, NOTE = "left-out", "gone", "note"
BROUGHT, BROKE, OVER = "brought", "broke", "over"
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}
UNLOADED = ("default", "glibc")  # allocators that need no preload


def environment(arm: Record, others: str | None, brought: bool = False, now: Record | None = None) -> dict[str, str]:
    """The variables of an arm as a header records it. others: libraries preloaded with every allocator. brought: the
    program brings an allocator of its own, so the C library's must be preloaded as well. now: the arm to be
    replaced."""
    variables = dict(arm["variables"])
    library = None
    if arm["library"] and (brought or arm["allocator"] not in UNLOADED):
        library = str(project.located(arm["library"]).absolute())
    beside = others if library or (now and now["library"] and now["allocator"] not in UNLOADED) else None
    words = (library, beside, variables.pop("LD_PRELOAD", None))
    preload = ":".join(word for word in words if word)
    return ({"LD_PRELOAD": preload} if preload else {}) | variables


def service_lines(arm: Record, now: Record, others: str | None, brought: bool, command: Sequence[str]) -> Service:
    """The lines that move a service from its present arm to another one. systemd is empty where nothing is to be set,
    since a bare Environment= would clear the settings of other lines. unset is empty where nothing is to be unset."""
    variables = environment(arm, others, brought, now)
    gone = [name for name in environment(now, others) if name not in variables]
    return {
        "systemd": systemd(variables) if variables else "",
        "unset": f"UnsetEnvironment={' '.join(gone)}" if gone else "",
        "shell": shell(variables, command, gone),
        "environment": variables,
    }


def systemd(variables: Mapping[str, str]) -> str:
    """A line of a unit's [Service] section: systemd.exec(5), Environment=; quoting as in systemd.syntax(7)."""
    return "Environment=" + " ".join(_quoted(f"{name}={value}") for name, value in variables.items())


def _quoted(assignment: str) -> str:
    return f'"{"".join(_ESCAPED.get(c, c) for c in assignment)}"'


def shell(variables: Mapping[str, str], command: Sequence[str], gone: Sequence[str] = ()) -> str:
    """The variables in front of a command. gone: variables to unset."""
    without = " ".join(["env", *(f"-u {name}" for name in gone)]) if gone else ""
    words = [without, *(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(command)]
    return " ".join(word for word in words if word)


def aim_of(header: Record) -> search.Aim:
    return search.Aim(DEFAULT, metric_of(header), guardrails_of(header["spec"]))


def candidates_of(header: Record) -> list[str]:
    return [arm["name"] for arm in header["arms"] if arm["name"] != DEFAULT]


def state_of(header: Record, records: Sequence[Record]) -> search.Course:
    """Progress of the choice."""
    gone = {event["arm"]: event["block"] for event in events(records, GONE)}
    first, over = header["spec"]["select-blocks"], bool(events(records, OVER))
    return search.course(candidates_of(header), finished_blocks(records, SELECT), aim_of(header), first, gone, over)


def found(design: Candidates, header: Record, records: list[Record]) -> Result:
    """The verdict of the confirmation, the course of the choice for information, and the advice for the service."""
    blocks, state = finished_blocks(records, SELECT), state_of(header, records)
    result = base_result(header, records, blocks) | {"comparisons": [], "looks": []}
    result |= {"blocks": len(finished_blocks(records, CONFIRM)), "tune": _course(header, records, state)}
    result["warnings"] = [text for text in result["warnings"] if text not in result["tune"]["left_out"]]
    if state.chosen is None:
        left = f"{len(blocks)} blocks, {len(state.alive)} candidates are left"
        return result | {"withheld": f"The choice is not finished: {left}"}
    chosen, broke = state.chosen, events(records, BROKE)
    result["selection"] = {"chosen": chosen, "candidates": _rows(header, blocks, chosen), "confirmation": None}
    result["tune"]["runner_up"] = runner_up = _runner_up(header, blocks, state)
    result = design.confirmed(result, header, records, chosen)
    if runner_up and result["verdict"] != "GO":
        result["tune"]["notes"].append(_told(runner_up))
    if not result["comparisons"]:
        return result | ({"withheld": broke[-1]["text"]} if broke else {})
    result["tune"]["broke"] = broke[-1]["text"] if broke else ""
    return _concluded(header, result, chosen, bool(events(records, BROUGHT)))


def _course(header: Record, records: Sequence[Record], state: search.Course) -> Tune:
    spec = header["spec"]
    return {
        "default": spec["default"],
        "objective": {"metric": spec["metric"], "most": spec["higher-is-better"]},
        "limits": {metric.name: limit for metric, limit in guardrails_of(spec).items()},
        "candidates": len(candidates_of(header)),
        "rungs": [{"blocks": r.blocks, "arms": len(r.arms), "kept": list(r.kept)} for r in state.rungs],
        "left_out": [event["text"] for event in (*events(records, LEFT_OUT), *events(records, GONE))],
        "notes": [event["text"] for what in (BROUGHT, NOTE, OVER) for event in events(records, what)],
        "runner_up": None,
        "use": None,
        "service": None,
    }


def _runner_up(header: Record, blocks: Blocks, state: search.Course) -> RunnerUp | None:
    """The other arm of the last rung, if its blocks promise a gain above the margin and keep the limits."""
    if not state.rungs:
        return None
    aim = aim_of(header)
    for name in state.rungs[-1].arms:
        found = search.score(blocks, name, aim, 0.0)
        if name != state.chosen and found.slack >= 0 and found.estimate >= as_log(header["spec"]["margin"]):
            return {"arm": name, "estimate": as_ratio(found.estimate), "blocks": len(shared(blocks, DEFAULT, name))}
    return None


def _told(runner_up: RunnerUp) -> str:
    name, better = runner_up["arm"], words.percent(100 * runner_up["estimate"])
    return (
        f"the next best was {name}, better by about {better} in the {runner_up['blocks']} blocks that chose, "
        f"which is no verdict: --allocators {shlex.quote(name)} confirms it, as a question of its own"
    )


def _rows(header: Record, blocks: Blocks, chosen: str) -> list[Candidate]:
    """Every candidate on its own blocks, the one that stayed longest first; the intervals hold simultaneously."""
    columns = two_arms.columns_of(blocks, DEFAULT, candidates_of(header), metric_of(header))
    intervals = paired.simultaneous_intervals(columns, 1 - header["spec"]["alpha"])
    ranked = sorted(intervals, key=lambda n: (n != chosen, -intervals[n].n, -intervals[n].estimate))
    return [{"arm": name, **intervals[name].ends(), "blocks": intervals[name].n} for name in ranked]


def _concluded(header: Record, result: Result, chosen: str, brought: bool) -> Result:
    """Add the advice that follows from the verdict: an arm with its command line, or no change."""
    spec, tune = header["spec"], result["tune"]
    if result["verdict"] == "GO":
        arms = {arm["name"]: arm for arm in header["arms"]}
        command = spec["server"]["command"] if spec["server"] else spec["command"]
        tune["use"] = chosen
        tune["service"] = service_lines(arms[chosen], arms[DEFAULT], spec["env"].get("LD_PRELOAD"), brought, command)
    return result
