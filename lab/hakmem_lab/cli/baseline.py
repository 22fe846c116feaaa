"""`hak baseline save` and `hak baseline compare`: what a change is compared with, kept as a file."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import flags, measure
from hakmem_lab.cli.flags import Format, JsonFile, Quiet, Require, StoreFolder
from hakmem_lab.errors import LabError

File = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline, such as main.baseline")]
DEFAULT_ARM = "hakmem"


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keep a build to compare later ones with.")
    group.command("save")(save)
    group.command("compare")(compare)
    app.add_typer(group, name="baseline")


def save(
    file: File,
    allocator: Annotated[str, typer.Option(metavar="ARM", help="ALLOCATOR[,NAME=VALUE...]")] = DEFAULT_ARM,
    spec: Annotated[Path | None, typer.Option(help="An ab spec to compare by, with arms of your choice")] = None,
) -> None:
    """Keep an allocator's library and settings, and the spec of the comparison, in one file."""
    from hakmem_lab.plan import baseline
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.plan.spec import read_toml

    text = None
    if spec is not None:
        if read_toml(spec).get("kind", "ab") != "ab":
            raise LabError(f"{spec}: a baseline is compared by a spec of the kind ab")
        text = spec.read_text(encoding="utf-8")
    facts = baseline.save(file, parse_arm(allocator, where="--allocator"), text)
    print(f"{file}: {facts['text']}, {facts['version'] or 'no version'}, sha256 {facts['sha256'][:12]}")


def compare(
    file: File,
    words: flags.Words = None,
    treatment: Annotated[str, typer.Option(metavar="ARM", help="What came after it")] = DEFAULT_ARM,
    metric: flags.Metric = None,
    higher_is_better: flags.Higher = None,
    margin: flags.Margin = None,
    max_blocks: flags.MaxBlocks = None,
    looks: flags.Looks = None,
    repeat: flags.Repeat = None,
    seed: flags.Seed = None,
    set_: flags.Keys = None,
    store: StoreFolder = None,
    json: JsonFile = None,
    format_: Format = None,
    require: Require = None,
    quiet: Quiet = False,
) -> None:
    """An A/B of the baseline and an arm of today, both run now, block by block."""
    params = dict(locals())
    del params["file"]
    from hakmem_lab.plan import baseline

    params["control"] = f"{baseline.PREFIX}{file}"
    own_spec = words and words[0].endswith(".toml")
    below = {} if own_spec else tomllib.loads(baseline.load(file, "baseline").spec or "")
    measure.measure_with("ab", params, below)
