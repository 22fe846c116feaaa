"""`hak tune`: search allocators and their options for the best arm, then confirm it on fresh runs against the default.

The search only chooses. What is said of the winner rests on blocks that had no part in choosing it, judged by the rule
of an A/B at the spec's alpha, so no number of candidates makes a false win more likely.
"""

from functools import partial

from hakmem_lab import extras
from hakmem_lab.errors import Stopped
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.kinds.ab import check_blocks, of_pair, run_until_settled
from hakmem_lab.kinds.tune import search
from hakmem_lab.kinds.tune import spec as spaces
from hakmem_lab.kinds.tune.result import aim_of, analyse, candidates_of, events, groups_of, state_of, whole_header
from hakmem_lab.kinds.tune.session import ASKED, BROKE, CONFIRM, LEFT_OUT, SELECT, TuneSession
from hakmem_lab.kinds.tune.spec import DEFAULT, Space, Spec
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.conduct import Context, conduct
from hakmem_lab.run.endings import Progress
from hakmem_lab.run.session import ArmFailed
from hakmem_lab.store.query import finished_blocks

__all__ = ["Spec", "analyse", "run"]


def run(spec: Spec, context: Context) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    check_blocks(spec, context.source, Plan(tuple(planned_looks(spec.max_blocks, spec.looks))))
    space = spaces.space_of(spec)
    texts = spaces.candidates(spec, space)
    large = spaces.is_large(spec, space)
    if large:
        extras.need("tune", f"hak tune over {space.size():,} combinations")
    if context.resume:
        texts = candidates_of(context.resume.header())

    def session(spec: Spec, arms: list[Arm], progress: Progress) -> TuneSession:
        made = TuneSession(spec, arms, progress)
        made.left_out, made.notes = dict(space.left_out), list(space.notes)
        made.search = (max(spec.tries, len(arms)), space.size()) if large else None
        return made

    arms, measured = spaces.arms(spec, texts), partial(measure, space=space)
    return conduct(spec, context, arms, lambda _: (0, 0), measured, analyse, session)


def measure(session: TuneSession, space: Space) -> None:
    """Rungs of the choice, then ABBA blocks of the default and the chosen one, until it is settled."""
    session.check_fitness()
    chosen = choose(session, space)
    session.progress.say(f"chosen for confirmation: {chosen}")
    pair, header = (DEFAULT, chosen), whole_header(session.file.header(), session.records())
    try:
        run_until_settled(session, CONFIRM, pair, of_pair(header, pair))
    except ArmFailed as failed:
        if failed.arm == chosen:
            text = f"{chosen} failed in block {failed.index} of its confirmation: {failed.why}"
            session.event(BROKE, text, arm=chosen)
        raise


def choose(session: TuneSession, space: Space) -> str:
    """The candidate that is left. Raises Stopped where all have failed."""
    while True:
        state = state_of(session.file.header(), session.records())
        if state.chosen is not None:
            return state.chosen
        if state.asks:
            ask(session, space)
        elif not state.alive:
            raise Stopped(f"every candidate failed in run {session.file.id}: hak show {session.file.id}")
        else:
            session.rung(state.alive, state.until)


def ask(session: TuneSession, space: Space) -> None:
    """A further group of candidates, by the scores of all before it."""
    header, records = session.file.header(), session.records()
    blocks, aim = finished_blocks(records, SELECT), aim_of(header)
    points = {text: search.parameters(space, text) for text in candidates_of(header)}
    asked = events(records, ASKED)
    for event in asked:
        points |= {arm["name"]: point for arm, point in zip(event["arms"], event["points"], strict=True)}
    told = []
    for name, point in points.items():
        score = search.score(blocks, name, aim, search.DOUBT)
        if point is not None and score.estimate > -float("inf"):
            told.append((point, score.estimate, score.slack))
    known = {*points, session.spec.default, *(event["arm"] for event in events(records, LEFT_OUT))}
    count = min(search.GROUP, groups_of(header, records)[1])
    found = search.ask(space, told, known, session.seed + len(asked), count)
    session.add(found, exhausted=len(found) < count)
