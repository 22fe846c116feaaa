"""A sweep: choose the best of k arms, then confirm it on fresh runs. Only the confirmed figure is quoted."""

from hakmem_lab.errors import LabError
from hakmem_lab.judge import failing
from hakmem_lab.judge.analysis import base_result, judged_ratios, metric_of
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.statistics import paired
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.kinds.ab import blocked, check_blocks, confirmation, of_pair, run_until_settled
from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm, parse_arms
from hakmem_lab.plan.spec import SweepSpec
from hakmem_lab.run.conduct import conduct
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, finished_blocks

Spec = SweepSpec
DEFAULT = "default"


def arms(spec: SweepSpec) -> list[Arm]:
    if DEFAULT in spec.candidates:
        raise LabError("candidates: the name 'default' is that of the side they are compared with")
    texts = {DEFAULT: spec.default, **spec.candidates}
    return parse_arms(texts, {name: "default" if name == DEFAULT else f"candidates.{name}" for name in texts})


def run(spec: SweepSpec, context) -> dict:
    blocks = check_blocks(spec, context.source, Plan(tuple(planned_looks(spec.max_blocks, spec.looks))))
    return conduct(spec, context, arms(spec), blocks, measure, analyse, SweepSession)


class SweepSession(Session[SweepSpec]):
    """A session with blocks of all arms for the selection, then blocks of two arms for the confirmation."""

    def runs_until(self, blocks: int) -> int:
        return super().runs_until(self.spec.select_blocks) + 2 * schedule.runs_of_each(2) * blocks


def _chosen(header: dict, blocks: Blocks) -> tuple[str, dict]:
    """(the candidate with the best estimate against the default, the log-ratios of all that finished every block)."""
    names = [arm["name"] for arm in header["arms"] if arm["name"] != DEFAULT]
    there = [name for name in names if all(name in block for block in blocks)]
    columns = {name: judged_ratios(blocks, DEFAULT, name, metric_of(header)) for name in there}
    return paired.select_best(columns), columns


def measure(session: SweepSession) -> None:
    """Selection on all arms, then ABBA blocks of the default and the chosen one, until it is settled."""
    spec, header = session.spec, session.file.header()
    session.check_fitness()
    chosen, _ = _chosen(header, session.run_blocks("select", list(session.arms), spec.select_blocks))
    session.progress.say(f"chosen for confirmation: {chosen}")
    pair = DEFAULT, chosen
    run_until_settled(session, "confirm", pair, of_pair(header, pair))


@explained
def analyse(header: dict, records: list[dict]) -> dict:
    """Candidates from the selection, for information, and the verdict of the confirmation."""
    spec = header["spec"]
    choosing, confirming = finished_blocks(records, "select"), finished_blocks(records, "confirm")
    result = base_result(header, records, choosing) | {"comparisons": [], "looks": []}
    result["blocks"] = len(confirming)
    if len(choosing) < spec["select-blocks"]:
        result["withheld"] = f"The selection is not finished: {len(choosing)} of {spec['select-blocks']} blocks"
        return result
    chosen, columns = _chosen(header, choosing)
    intervals = paired.simultaneous_intervals(columns, 1 - spec["alpha"])
    ranked = sorted(intervals, key=lambda n: -intervals[n].estimate)
    rows = [{"arm": name, **intervals[name].ends()} for name in ranked]
    result["selection"] = {"chosen": chosen, "candidates": rows, "confirmation": None}
    parts = confirmation(header, records, (DEFAULT, chosen), confirming)
    if not parts:
        return result | {"withheld": f"{chosen} was chosen; its confirmation is not finished"}
    result = blocked(failing.withheld(result | parts, records, DEFAULT, chosen), records)
    result["selection"]["confirmation"] = result["comparisons"][0]
    return result
