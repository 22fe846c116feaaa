"""The page of an experiment in docs/experiments: question, verdict, interval, picture, raw data, conclusion.

Everything is taken from the stored run but the section "Conclusion", which is a person's and is kept when the page is
made again.
"""

import gzip
import re
import sys
from pathlib import Path

from hakmem_lab import kinds, report
from hakmem_lab.cli.render import interval, percent
from hakmem_lab.errors import LabError
from hakmem_lab.kinds.latency_histogram import PERCENTILES
from hakmem_lab.kinds.latency_result import key
from hakmem_lab.store import RunFile, Store, default_folder

PAGES = Path("docs/experiments")
CONCLUSION = "## Conclusion\n"


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def shown_metric(name: str) -> str:
    return "output" if name.startswith("regex:") else name


def figures(result: dict) -> list[str]:
    """The kind's own tables."""
    lines: list[str] = []
    if selection := result.get("selection"):
        rows = [[row["arm"], interval(row)] for row in selection["candidates"]]
        lines += table(["candidate, when chosen", "against the default"], rows)
    if comparisons := result.get("comparisons"):
        heads = [
            f"better (+) or worse (−) than {comparisons[0]['control']}",
            "metric",
            "estimate [interval]",
            "verdict",
        ]
        primary = result["metric"]["name"]
        rows = [
            [f"`{row['treatment']}`", shown_metric(row["metric"]), interval(row), row["verdict"] or ""]
            for row in comparisons
            if row["metric"] in (primary, "rss", "rss-mean", "wall")
        ]
        lines += table(heads, rows)
    if effects := result.get("effects"):
        rows = [[row["name"], row["kind"], interval(row), row["reading"] or ""] for row in effects]
        lines += table(["effect", "kind", "estimate [interval]", "reading"], rows)
    if latency := result.get("latency"):
        rows = [[f"`{arm['name']}`", *(f"{arm[key(name)]:.4g}" for name in PERCENTILES)] for arm in latency["arms"]]
        lines += table(["response time of all requests, µs", *PERCENTILES], rows)
    if rails := result.get("guardrails"):
        rows = [[row["metric"], percent(1 / (1 + row["limit"]) - 1), interval(row), row["status"]] for row in rails]
        heads = ["guardrail", "tolerated", "estimate [interval]", "status"]
        if any("arm" in row for row in rails):
            heads, rows = ["arm", *heads], [[f"`{rail['arm']}`", *row] for rail, row in zip(rails, rows, strict=True)]
        lines += table(heads, rows)
    return lines


def page(name: str, header: dict, result: dict, conclusion: str) -> str:
    verdict = result.get("verdict")
    machine = header["machine"]
    where = f"{machine['cpu']}, {machine['processors']} processors, Linux {machine['kernel']}"
    lines = [f"# {name.replace('_', ' ').capitalize()}", "", f"**Question.** {result['question']}", ""]
    lines += [f"**{verdict}.** {result['headline']}" if verdict else f"**Result.** {result['headline']}", ""]
    lines += [f"![{result['headline']}](pictures/{name}.svg)", ""]
    lines += figures(result)
    lines += [f"Warning: {text}." for text in result["warnings"]]
    lines += [
        f"Blocks: {result['blocks']}; {header['created'][:10]}, {where}. Spec: "
        f"[`experiments/{name}.toml`](../../experiments/{name}.toml), `hak {header['kind']} experiments/{name}.toml`. "
        f"Raw data: [`data/{name}.jsonl.gz`](data/{name}.jsonl.gz), to be read with "
        f"`hak show docs/experiments/data/{name}.jsonl.gz`.",
        "",
        CONCLUSION + conclusion,
    ]
    return "\n".join(lines).rstrip() + "\n"


def publish(spec: Path, file: RunFile) -> Path:
    """Writes page, picture and raw data. Raises LabError where the run is not one of this spec."""
    header, records = file.header(), list(file.records())
    if header["spec_file"] is None or Path(header["spec_file"]).name != spec.name:
        raise LabError(f"run {file.id} is of {header['spec_file'] or 'no spec'}, not of {spec}")
    result = kinds.module(header["kind"]).analyse(header, records)
    name, target = spec.stem, PAGES / f"{spec.stem}.md"
    for folder in ("data", "pictures"):
        (PAGES / folder).mkdir(parents=True, exist_ok=True)
    raw = file.path.read_bytes()
    if file.path.suffix == ".gz":
        raw = gzip.decompress(raw)
    report.save_picture(result, records, PAGES / "pictures" / f"{name}.svg")
    with gzip.GzipFile(PAGES / "data" / f"{name}.jsonl.gz", "wb", mtime=0) as packed:
        # Where the checkout lay says nothing.
        packed.write(raw.replace(f"{Path.cwd()}/".encode(), b""))
    old = target.read_text(encoding="utf-8") if target.exists() else ""
    conclusion = re.split(re.escape(CONCLUSION), old, maxsplit=1)[1] if CONCLUSION in old else ""
    target.write_text(page(name, header, result, conclusion), encoding="utf-8")
    return target


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: experiments/publish SPEC.toml [RUN]")
    try:
        print(publish(Path(sys.argv[1]), Store(default_folder()).find(sys.argv[2] if len(sys.argv) > 2 else "last")))
    except LabError as error:
        sys.exit(f"publish: {error}")


if __name__ == "__main__":
    main()
