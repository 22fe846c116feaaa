"""`hak tune`: search allocators and their options for the best arm, then confirm it on fresh runs against the default.

The search only chooses. What is said of the winner rests on blocks that had no part in choosing it, judged by the rule
of an A/B at the spec's alpha, so no number of candidates makes a false win more likely.
"""

from hakmem_lab.errors import Stopped
from hakmem_lab.judge.statistics import looks
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.kinds.ab.kind import check_blocks, run_until_settled
from hakmem_lab.kinds.tune import space as spaces
from hakmem_lab.kinds.tune.result import analyse, pair_header, state_of
from hakmem_lab.kinds.tune.session import CONFIRM, TuneSession
from hakmem_lab.kinds.tune.spec import DEFAULT, Spec
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.conduct import conduct
from hakmem_lab.run.context import Context
from hakmem_lab.run.progress import Progress

__all__ = ["Spec", "analyse", "run"]


def run(spec: Spec, context: Context) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    check_blocks(spec, context.source, Plan(tuple(looks.planned_looks(spec.max_blocks, spec.looks))))
    space = spaces.space_of(spec)
    texts = spaces.candidates(spec, space)
    if context.resume:
        texts = [arm["name"] for arm in context.resume.header()["arms"] if arm["name"] != DEFAULT]

    def session(spec: Spec, arms: list[Arm], progress: Progress) -> TuneSession:
        made = TuneSession(spec, arms, progress)
        made.left_out, made.notes = dict(space.left_out), list(space.notes)
        return made

    return conduct(spec, context, spaces.arms(spec, texts), lambda _: (0, 0), measure, analyse, session)


def measure(session: TuneSession) -> None:
    """Rungs of the choice, then ABBA blocks of the default and the chosen one, until it is settled."""
    session.check_fitness()
    chosen = choose(session)
    session.progress.say(f"chosen for confirmation: {chosen}")
    header = session.file.header()
    run_until_settled(session, CONFIRM, (DEFAULT, chosen), pair_header(header, session.records(), chosen))


def choose(session: TuneSession) -> str:
    """The candidate that is left. Raises Stopped where all have failed."""
    while True:
        header, records = session.file.header(), session.records()
        state = state_of(header, records)
        if state.chosen is not None:
            return state.chosen
        if state.done:
            raise Stopped(f"every candidate failed in run {session.file.id}: hak show {session.file.id}")
        session.rung(state.alive, state.until)
