"""Makes one self-contained HTML page from runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
from markupsafe import Markup

from hakmem_lab.judge import explain
from hakmem_lab.show import numbers
from hakmem_lab.show.kinds import tune
from hakmem_lab.show.report import reproduce, svg, tables
from hakmem_lab.show.report.model import LoadedRun, Table
from hakmem_lab.show.report.pictures import draw
from hakmem_lab.show.report.svg import Picture
from hakmem_lab.store.runs import plain

# Keeps a page of very many runs quick to make and to open: beyond this many pictures a run gets only its leading one,
# beyond twice as many none. The page says so.
PICTURE_BUDGET = 48

_LINK_SCHEMES = ("", "file", "http", "https")


def templates() -> jinja2.Environment:
    """The environment of the templates: values are escaped, and a missing value is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render(runs: Sequence[LoadedRun], links: Mapping[str, str]) -> str:
    """The page for `runs`, in their order. `links`: as in `report.write`; addresses with unsafe schemes are not
    linked."""
    environment = templates()
    environment.filters["typeset"] = numbers.typeset
    drawn = 0
    articles = []
    for position, original in enumerate(runs, start=1):
        run = original.cleaned()
        only = None if drawn < PICTURE_BUDGET else 1 if drawn < 2 * PICTURE_BUDGET else 0
        pictures = draw(run, f"r{position}", only)
        drawn += len(pictures)
        article = _article(run, f"r{position}", pictures, only, links.get(original.id))
        articles.append(article | {"json": embedded_json(original.result)})
    return environment.get_template("page.html.j2").render(title=_title(articles), articles=articles, **schemes())


def schemes() -> dict[str, Markup]:
    return {"light": Markup(svg.variables(dark=False)), "dark": Markup(svg.variables(dark=True))}


def _title(articles: Sequence[Mapping[str, Any]]) -> str:
    if len(articles) == 1:
        return f"{numbers.typeset(articles[0]['verdict'].headline)} – hakmem laboratory"
    return f"{len(articles)} runs – hakmem laboratory"


def _article(
    run: LoadedRun, key: str, pictures: Sequence[Picture], only: int | None, link: str | None
) -> dict[str, Any]:
    """The data of one run for the template."""
    spec = reproduce.specification(run)
    return {
        "key": key,
        "id": run.id,
        "kind": run.kind,
        "created": str(run.header.get("created") or run.result.get("created") or ""),
        "question": run.question,
        "verdict": explain.explain(run.result),
        "facts": tables.facts(run),
        "earlier": tables.earlier(run),
        "interim": run.result.get("final") is False,
        "pictures": [(picture, Markup(picture.svg)) for picture in pictures],
        "left_out": only is not None,
        "service": tune.service_lines(run.result),
        "findings": tables.findings(run),
        "arms": tables.arms(run),
        "failures": tables.failures(run),
        "warnings": [str(text) for text in run.result.get("warnings") or []],
        "advice": [str(text) for text in (run.result.get("aa") or {}).get("advice") or []],
        "events": tables.events(run),
        "decisions": tables.decisions(run),
        "environment": tables.environment(run),
        "spec": spec,
        "spec_file": run.header.get("spec_file"),
        "command": reproduce.command_line(run),
        "link": link,
        "linked": link is not None and urlsplit(link).scheme.lower() in _LINK_SCHEMES,
        "records": len(run.runs),
    }


def reading(
    result: Mapping[str, Any], heading: str, headline: str, pictures: Sequence[Picture],
    tables: Sequence[Table], note: str,
) -> str:  # fmt: skip
    """A page with pictures and tables for one result; it also embeds the result as JSON."""
    template = templates().get_template("reading.html.j2")
    drawn = [(picture, Markup(picture.svg)) for picture in pictures]
    return template.render(
        heading=heading, time=result.get("time"), headline=headline, note=note, pictures=drawn, tables=tables,
        json=embedded_json(result), **schemes(),
    )  # fmt: skip


def embedded_json(value: Any) -> Markup:
    """The value as JSON that is safe inside a script element; infinities and NaN become null."""
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, default=str)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
