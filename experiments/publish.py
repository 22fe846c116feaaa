"""Writes an experiment's page in results/experiments: question, verdict, interval, picture, raw data, conclusion.

Everything is generated from the stored run, except the section "Conclusion", which a person writes; it is kept when
the page is generated again. The same holds for the first cell of the row in the index. `--all` generates every page
and row again from the raw data.
"""

import gzip
import sys
from pathlib import Path

from hakmem_lab import kinds
from hakmem_lab.errors import LabError
from hakmem_lab.judge.explain import explain, tolerated
from hakmem_lab.kinds.latency.pool import PERCENTILES
from hakmem_lab.kinds.latency.result import key
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.plan.model import read_toml
from hakmem_lab.plan.spec import NAMING
from hakmem_lab.show import figures as cells
from hakmem_lab.show import report
from hakmem_lab.store.runs import RunFile, Store, default_folder

SPECS = Path(__file__).resolve().parent
PAGES = Path("results/experiments")
INDEX = PAGES / "README.md"
CONCLUSION = "## Conclusion\n"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def named(name: str, header: dict) -> dict:
    """The header with the metric's names as the spec has them today; names may change after the measurement."""
    spec = read_toml(SPECS / f"{name}.toml")
    names = {key: spec[key] for key in NAMING if key in spec}
    return header | {"spec": header["spec"] | names}


def figures(result: dict) -> list[str]:
    """The kind's own tables."""
    lines: list[str] = []
    if selection := result.get("selection"):
        rows = [[row["arm"], cells.told(result, row)] for row in selection["candidates"]]
        lines += table(["candidate, when chosen", "against the default"], rows)
    if comparisons := result.get("comparisons"):
        heads = [f"against {comparisons[0]['control']}", "metric", "effect [interval]", "verdict"]
        primary = result["metric"]["name"]
        rows = [
            [f"`{row['treatment']}`", cells.metric(result, row), cells.told(result, row), row["verdict"] or ""]
            for row in comparisons
            if row["metric"] in (primary, "rss", "rss-mean", "wall") or row["metric"].startswith("mean of ")
        ]
        lines += table(heads, rows)
        lines += spreads(comparisons)
    if effects := result.get("effects"):
        rows = [[row["name"], row["kind"], cells.told(result, row), row["reading"] or ""] for row in effects]
        lines += table(["effect", "kind", "size [interval]", "reading"], rows)
    if latency := result.get("latency"):
        rows = [[f"`{arm['name']}`", *(f"{arm[key(name)]:.4g}" for name in PERCENTILES)] for arm in latency["arms"]]
        lines += table(["response time of all requests, µs", *PERCENTILES], rows)
    if rails := result.get("guardrails"):
        rows = [
            [cells.metric(result, row), tolerated(result, row), cells.told(result, row), row["status"]] for row in rails
        ]
        heads = ["guardrail", "tolerated", "effect [interval]", "status"]
        if cells.of_several(rails):
            heads, rows = ["arm", *heads], [[f"`{rail['arm']}`", *row] for rail, row in zip(rails, rows, strict=True)]
        lines += table(heads, rows)
    return lines


def spreads(comparisons: list[dict]) -> list[str]:
    """A line with the spread of each arm's runs, which the averages do not show."""
    rows = [row for row in comparisons if "spread" in row]
    if not rows:
        return []
    texts = {row["control"]: (row["spread"][0], row["far_off"][0], row["runs"][0]) for row in rows[:1]}
    texts |= {row["treatment"]: (row["spread"][1], row["far_off"][1], row["runs"][1]) for row in rows}
    parts = [f"`{arm}` {100 * sd:.1f} % ({far} of {runs})" for arm, (sd, far, runs) in texts.items()]
    return [f"Spread of the runs (and how many were more than twice as bad as the median): {', '.join(parts)}.", ""]


def page(name: str, header: dict, result: dict, conclusion: str) -> str:
    verdict = result.get("verdict")
    machine, command = header["machine"], KINDS[header["kind"]].called
    where = f"{machine['cpu']}, {machine['processors']} processors, Linux {machine['kernel']}"
    lines = [f"# {name.replace('_', ' ').capitalize()}", "", f"**Question.** {result['question']}", ""]
    said = explain(result)
    first, more = said.headline, said.more
    lines += [f"**{verdict or 'Result'}: {first.rstrip('.')}.**" + (f" {more}" if more else ""), ""]
    lines += [f"![{first}](pictures/{name}.svg)", ""]
    lines += figures(result)
    lines += [f"Warning: {text}." for text in result["warnings"]]
    lines += [
        f"Blocks: {result['blocks']}; {header['created'][:10]}, {where}. Spec: "
        f"[`experiments/{name}.toml`](../../experiments/{name}.toml), `hak {command} experiments/{name}.toml`. "
        f"Raw data: [`data/{name}.jsonl.gz`](data/{name}.jsonl.gz), to be read with "
        f"`hak runs show results/experiments/data/{name}.jsonl.gz`.",
        "",
        CONCLUSION + conclusion,
    ]
    return "\n".join(lines).rstrip() + "\n"


def conclusion_of(text: str) -> str:
    """The text of the section "Conclusion" in a page."""
    return text.split(CONCLUSION, 1)[1] if CONCLUSION in text else ""


def index_cell(result: dict) -> str:
    """The third cell of the index: the whole sentence, since a shortened one would claim something else."""
    return explain(result).line


def renew_index(name: str, result: dict) -> None:
    """Updates the result in this page's row of the index; the first cell, which a person writes, stays."""
    rows = INDEX.read_text(encoding="utf-8").split("\n")
    link = f"[{name}]({name}.md)"
    for place, row in enumerate(rows):
        if link in row:
            rows[place] = f"{row[: row.index(link)]}{link} | {index_cell(result)} |"
    INDEX.write_text("\n".join(rows), encoding="utf-8")


def renew(name: str) -> Path:
    """Generates page, picture and row again from the published raw data."""
    file = RunFile(PAGES / "data" / f"{name}.jsonl.gz")
    header, records = named(name, file.header()), list(file.records())
    result = kinds.result_of(file, header)
    report.save_picture(result, records, PAGES / "pictures" / f"{name}.svg")
    target = PAGES / f"{name}.md"
    conclusion = conclusion_of(target.read_text(encoding="utf-8"))
    target.write_text(page(name, header, result, conclusion), encoding="utf-8")
    renew_index(name, result)
    return target


def publish(spec: Path, file: RunFile) -> Path:
    """Writes page, row, picture and raw data. Raises LabError if the run is of another spec."""
    header, records = file.header(), list(file.records())
    if header["spec_file"] is None or Path(header["spec_file"]).name != spec.name:
        raise LabError(f"run {file.id} is of {header['spec_file'] or 'no spec'}, not of {spec}")
    result = kinds.result_of(file, header)
    name, target = spec.stem, PAGES / f"{spec.stem}.md"
    for folder in ("data", "pictures"):
        (PAGES / folder).mkdir(parents=True, exist_ok=True)
    report.save_picture(result, records, PAGES / "pictures" / f"{name}.svg")
    with gzip.GzipFile(PAGES / "data" / f"{name}.jsonl.gz", "wb", mtime=0) as packed:
        # Paths become relative to the checkout.
        packed.write(file.path.read_bytes().replace(f"{Path.cwd()}/".encode(), b""))
    old = target.read_text(encoding="utf-8") if target.exists() else ""
    target.write_text(page(name, header, result, conclusion_of(old)), encoding="utf-8")
    renew_index(name, result)
    return target


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: experiments/publish SPEC.toml [RUN], or experiments/publish --all")
    try:
        if sys.argv[1] == "--all":
            for path in sorted((PAGES / "data").glob("*.jsonl.gz")):
                print(renew(path.name.partition(".")[0]))
            return
        print(publish(Path(sys.argv[1]), Store(default_folder()).find(sys.argv[2] if len(sys.argv) > 2 else "last")))
    except LabError as error:
        sys.exit(f"publish: {error}")


if __name__ == "__main__":
    main()
