"""Puts together what the site is made of: pages.py FOLDER LIBRARY.

The folder gets the repository's own layout, so that links lead where they lead in the repository: the pages of the
navigation, and whatever they link to. Options are what the library prints, the interface is the header, "Should I use
it?" is the gallery's: none of it is written twice.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import should

from hakmem_lab.show import gallery

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "docs" / "site" / "pages"
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)#\s]+)(#[^)\s]*)?\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
# Title -> page, or a part with such; a page that is not there is left out. `gallery`, `recipes`: all of the folder.
NAVIGATION = {
    "Start": "index.md",
    "Should I use it?": "should.md",
    "Prove it on your own program": "docs/lab/tutorial.md",
    "Install": "docs/install.md",
    "Recipes": "docs/recipes",
    "Use": {
        "Overview": "overview.md",
        "Which profile?": "docs/profiles.md",
        "Options": "options.md",
        "Interface by example": "docs/interface.md",
        "Regions": "docs/regions.md",
        "Interface": "api.md",
        "Observe": "docs/observe.md",
        "Debugging": "docs/debugging.md",
        "Slower than before": "docs/slower.md",
        "Record and replay": "docs/record.md",
        "The laboratory": {
            "Overview": "docs/lab.md",
            "Compare": "docs/lab/howto-compare.md",
            "Prepare": "docs/lab/howto-prepare.md",
            "Tune": "docs/lab/howto-tune.md",
            "Servers": "docs/lab/howto-servers.md",
            "Suites": "docs/lab/howto-suite.md",
            "Automate": "docs/lab/howto-automate.md",
            "Method": "docs/lab/method.md",
            "Schedules": "docs/lab/schedules.md",
            "Reference": "docs/lab/reference.md",
        },
    },
    "Risks and limits": "docs/risks.md",
    "Security": "SECURITY.md",
    "Platforms": "docs/platforms.md",
    "Results": {
        "Overview": "results/README.md",
        "Bias": "docs/bias.md",
        "Scorecard": "results/scorecard.md",
        "Short programs": "results/starts.md",
        "Gallery": "results/gallery",
        "Configuration of the others": "bench/peers/README.md",
        "Experiments with raw data": "results/experiments",
        "Every idea": "docs/experiments/README.md",
        "Numbers of retention": "results/retention_numbers.md",
        "Heap profiles": "results/heap_profiles.md",
        "Security": "results/security.md",
        "Used heaps": "results/used_heap.md",
        "Recordings": "results/record.md",
        "Schedules": "results/schedules.md",
        "Rising sizes": "results/rising_sizes.md",
    },
    "Inside": {
        "How one allocation runs": "src/README.md",
        "Design": "docs/design.md",
        "Invariants": "src/invariants.md",
        "Laboratory": "lab/README.md",
        "Engine of a comparison": "docs/lab/engine.md",
        "Contributing": "CONTRIBUTING.md",
        "Changes": "CHANGELOG.md",
    },
}


def title(page: Path) -> str:
    return next(line[2:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def options(library: Path) -> str:
    """The library's own table."""
    printed = subprocess.run(
        ["/bin/true"], env={"LD_PRELOAD": str(library), "HAKMEM_HELP": "1"}, capture_output=True, text=True, check=True
    ).stderr.splitlines()
    starts = [printed[0].index(head) for head in ("option", "value", "speed", "balanced", "lean", "what")]
    lines = ["# Options", "", "As `HAKMEM_HELP=1` prints them; longer explanations: [options](docs/options.md).", ""]
    lines += ["| variable | speed | balanced | lean | what it does |", "|---|---|---|---|---|"]
    for line in printed[1:]:
        columns = zip(starts, [*starts[1:], len(line)], strict=True)
        name, _, speed, balanced, lean, told = (line[start:end].strip() for start, end in columns)
        lines.append(f"| `{name}` | {speed} | {balanced} | {lean} | {told} |")
    return "\n".join(lines) + "\n"


def interface() -> str:
    """The header: what its first comment says, then every group of functions and every type with its comment."""
    header = (ROOT / "include" / "hakmem.h").read_text(encoding="utf-8")
    top = re.match(r"/\* (.*?)\*/", header, re.DOTALL)
    assert top is not None
    lines = ["# Interface", "", "From [hakmem.h](include/hakmem.h).", "", prose(top.group(1)), ""]
    body = header[header.index("/* The version of the library") : header.rindex("#ifdef __cplusplus")]
    for group in body.strip().split("\n\n"):
        comment = re.match(r"/\*(.*?)\*/\n", group, re.DOTALL)
        bare = re.sub(r"/\*.*?\*/", "", group, flags=re.DOTALL)
        names = re.findall(r"\b(hak_\w+)\(", bare) or re.findall(r"\b(hak_\w+);$", bare, re.MULTILINE)
        declared = re.sub(r"^HAK_EXPORT ", "", group[comment.end() :] if comment else group, flags=re.MULTILINE)
        lines += [f"## {', '.join(names)}", "", "```c", declared, "```", ""]
        lines += [prose(comment.group(1)), ""] if comment else []
    return "\n".join(lines)


def prose(comment: str) -> str:
    """A comment without its stars; a list in it stays one."""
    lines, before = [], ""
    for line in (re.sub(r"^ \* ?", "", line).rstrip() for line in comment.strip().split("\n")):
        if line.startswith("  - ") and not before.startswith("  "):
            lines.append("")
        lines.append(re.sub(r"^  - ", "- ", line))
        before = line
    return "\n".join(lines)


def targets(page: Path) -> list[Path]:
    """Files of the repository that a page links to."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = [match.group(1) or match.group(3) for match in LINK.finditer(text)]
    return [Path(os.path.normpath(page.parent / name)) for name in found if "://" not in name]


def gather(folder: Path, page: Path) -> None:
    """A page of the folder, and from the repository what it links to."""
    for target in targets(page):
        inside = target.relative_to(folder)
        if not target.exists() and (ROOT / inside).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / inside, target)
            if target.suffix == ".md":
                gather(folder, target)


def leaves(navigation: dict) -> list[str]:
    return [leaf for value in navigation.values() for leaf in (leaves(value) if isinstance(value, dict) else [value])]


def listed(folder: Path, navigation: dict) -> list:
    """As MkDocs wants it, of what is there."""
    found: list = []
    for name, value in navigation.items():
        if isinstance(value, dict):
            found.append({name: listed(folder, value)})
        elif (folder / value).is_dir():
            pages = sorted((folder / value).glob("*.md"), key=lambda page: (page.name != "README.md", page.name))
            found.append({name: [{title(page): str(page.relative_to(folder))} for page in pages]})
        elif (folder / value).exists():
            found.append({name: value})
    return found


def main() -> None:
    folder, library = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(OWN, folder)
    overview = (ROOT / "README.md").read_text(encoding="utf-8")  # MkDocs would take a README for its index
    rows = gallery.rows()
    start = (OWN / "index.md").read_text(encoding="utf-8")
    figures = "\n".join(f"- {line}" for line in should.gallery_chart.lines(rows))
    made = {
        "overview.md": overview,
        "options.md": options(library),
        "api.md": interface(),
        "should.md": should.page(rows, folder),
        "index.md": start.replace("FIGURES", figures),
    }
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    for leaf in leaves(NAVIGATION):
        if (ROOT / leaf).is_dir():
            shutil.copytree(ROOT / leaf, folder / leaf)
        elif (ROOT / leaf).exists():
            (folder / leaf).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / leaf, folder / leaf)
    for page in list(folder.rglob("*.md")):
        gather(folder, page)
    settings = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = json.dumps(listed(folder, NAVIGATION), ensure_ascii=False)  # which is YAML, too
    beside = settings.replace("../../build/", "")  # for settings in the build folder
    (folder.parent / "site.yml").write_text(f"{beside}nav: {navigation}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
