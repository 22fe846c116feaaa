"""Which combinations of options are tried where there are too many to try all: Optuna's TPE sampler, asked and told.

Every group of candidates is asked for anew, from the scores of all before it and a seed of its own, so that a run that
was interrupted asks the same questions.
"""

import warnings
from collections.abc import Collection, Sequence
from typing import Any

from hakmem_lab.kinds.tune.space import Space
from hakmem_lab.plan import tunables

GROUP = 16  # candidates that are asked for at once, and stand in the same blocks
ASKED_AGAIN = 20  # times, for each candidate of a group, before it is taken that there is nothing new
UNSET = "(as it is)"
Parameters = dict[str, str]


def parameters(space: Space, text: str) -> Parameters | None:
    """An allocator as it is, as the sampler sees it; None for an arm that is no point of the space."""
    if text not in space.options:
        return None
    return {"allocator": text} | {_name(text, option): UNSET for option in space.options[text]}


def _name(allocator: str, option: tunables.Option) -> str:
    return f"{allocator}: {option.name}"


def text_of(space: Space, chosen: Parameters) -> str:
    """The arm of a point of the space."""
    allocator = chosen["allocator"]
    values = {option: chosen[_name(allocator, option)] for option in space.options[allocator]}
    return tunables.arm_text(allocator, {option: value for option, value in values.items() if value != UNSET})


def ask(
    space: Space, told: Sequence[tuple[Parameters, float, float]], known: Collection[str], seed: int, count: int
) -> dict[str, Parameters]:
    """Arm -> its point, of at most `count` new ones. told: points with estimate and slack; known: arms that were tried,
    or failed."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=GROUP)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for chosen, estimate, slack in told:
            study.add_trial(_told(optuna, space, chosen, estimate, slack))
        found: dict[str, Parameters] = {}
        for _ in range(ASKED_AGAIN * count):
            if len(found) == count:
                break
            chosen = _suggested(space, study.ask())
            text = text_of(space, chosen)
            if text not in known:
                found.setdefault(text, chosen)
    return found


def _choices(option: tunables.Option) -> list[str]:
    return [UNSET, *option.values]


def _suggested(space: Space, trial: Any) -> Parameters:
    allocator = trial.suggest_categorical("allocator", list(space.options))
    return {"allocator": allocator} | {
        _name(allocator, option): trial.suggest_categorical(_name(allocator, option), _choices(option))
        for option in space.options[allocator]
    }


def _told(optuna: Any, space: Space, chosen: Parameters, estimate: float, slack: float) -> Any:
    """A finished trial; a limit that is broken makes it one that the sampler does not follow."""
    categorical = optuna.distributions.CategoricalDistribution
    allocator = chosen["allocator"]
    distributions: dict[str, Any] = {"allocator": categorical(list(space.options))} | {
        _name(allocator, option): categorical(_choices(option)) for option in space.options[allocator]
    }
    return optuna.trial.create_trial(
        params=chosen, distributions=distributions, value=estimate, constraints={"limits": -min(slack, 1e9)}
    )
