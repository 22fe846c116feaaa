"""What the gallery's programs work on, made from fixed seeds: inputs.py FOLDER. What is there already is left alone."""

import json
import random
import subprocess
import sys
import zlib
from pathlib import Path

WORDS = [
    f"{a}{b}{c}" for a in ("re", "un", "co", "in") for b in ("mor", "val", "ten", "gis") for c in ("e", "ing", "ed")
]


def records(count: int) -> list[dict]:
    pick = random.Random(1)
    return [
        {
            "id": number,
            "name": " ".join(pick.choices(WORDS, k=3)),
            "tags": pick.choices(WORDS, k=5),
            "price": round(pick.random() * 100, 2),
            "place": {"x": pick.randrange(1000), "y": pick.randrange(1000)},
        }
        for number in range(count)
    ]


def text(lines: int) -> str:
    pick = random.Random(2)
    return "\n".join(" ".join(pick.choices(WORDS, k=12)) for _ in range(lines)) + "\n"


def csv(lines: int) -> str:
    pick = random.Random(3)
    rows = [f"{pick.choice(WORDS)},{pick.randrange(100)},{pick.random():.4f}" for _ in range(lines)]
    return "\n".join(["word,count,share", *rows]) + "\n"


def xml(count: int) -> str:
    items = [
        f'<item id="{each["id"]}"><name>{each["name"]}</name><tag>{"</tag><tag>".join(each["tags"])}</tag></item>'
        for each in records(count)
    ]
    return "<items>" + "\n".join(items) + "</items>\n"


def graph(nodes: int) -> str:
    pick = random.Random(4)
    edges = [f"  n{pick.randrange(nodes)} -> n{node};" for node in range(1, nodes) for _ in range(2)]
    return "digraph g {\n" + "\n".join(edges) + "\n}\n"


def c_source(functions: int) -> str:
    body = """static int f{n}(int *a, int n) {{
  struct {{ int x[4]; double y; const char *s; }} v = {{{{n, {n}, 3, 4}}, {n}.5, "text {n}"}};
  for (int i = 0; i < n; i++) {{ a[i] = a[i] * {n} + v.x[i & 3]; if (a[i] % 7 == 3) a[i] -= (int)v.y; }}
  switch (a[0]) {{ case 1: return a[1]; case 2: return a[2] + v.s[0]; case 3: return n; default: return a[3] ^ n; }}
}}
"""
    made = "".join(body.format(n=n) for n in range(functions))
    calls = "\n".join(f"  s += f{n}(a, 8);" for n in range(functions))
    return f"{made}int main(void) {{\n  int a[8] = {{1}}, s = 0;\n{calls}\n  return s & 1;\n}}\n"


def cc_source(classes: int) -> str:
    head = "#include <algorithm>\n#include <functional>\n#include <map>\n#include <string>\n#include <vector>\n"
    body = """struct C{n} {{ std::map<std::string, std::vector<int>> m; std::function<int(int)> f;
  int go() {{ m["k"].push_back({n}); std::sort(m["k"].begin(), m["k"].end());
    f = [this](int x) {{ return x + (int)m.size(); }}; return f({n}); }} }};
"""
    calls = " + ".join(f"C{n}().go()" for n in range(classes))
    return head + "".join(body.format(n=n) for n in range(classes)) + f"int main() {{ return {calls}; }}\n"


def picture(side: int) -> bytes:
    pick = random.Random(5)
    rows = (
        bytes((x * y + c * 50 + pick.randrange(16)) & 255 for x in range(side) for c in range(3)) for y in range(side)
    )
    return b"P6 %d %d 255\n" % (side, side) + b"".join(rows)


def postscript(pages: int) -> str:
    pick = random.Random(6)
    out = ["%!PS"]
    for _ in range(pages):
        out.append("/Times-Roman findfont 11 scalefont setfont")
        out += [
            f"{50 + pick.randrange(5)} {y} moveto ({' '.join(pick.choices(WORDS, k=10))}) show"
            for y in range(60, 780, 12)
        ]
        out += [
            f"newpath {pick.randrange(600)} {pick.randrange(800)} {pick.randrange(90)} 0 360 arc stroke"
            for _ in range(60)
        ]
        out.append("showpage")
    return "\n".join(out) + "\n"


def scad() -> str:
    """A sponge of Menger, as OpenSCAD's example024: openscad -D depth=N."""
    return """module sponge(side, depth) {
  difference() {
    cube(side, center = true);
    for (turn = [[0, 0, 0], [90, 0, 0], [0, 90, 0]]) rotate(turn) holes(side, side, depth);
  }
}
module holes(side, whole, depth) {
  cube([side / 3, side / 3, whole + 1], center = true);
  if (depth > 1) for (x = [-1 : 1], y = [-1 : 1]) if (x != 0 || y != 0)
    translate([x * side / 3, y * side / 3, 0]) holes(side / 3, whole, depth - 1);
}
sponge(81, depth);
"""


def sat(variables: int) -> str:
    """Clauses of three literals, so few that an answer is found at once."""
    pick, clauses = random.Random(10), variables * 3
    lines = [f"p cnf {variables} {clauses}"]
    for _ in range(clauses):
        lines.append(" ".join(str(v * pick.choice((1, -1))) for v in pick.sample(range(1, variables + 1), 3)) + " 0")
    return "\n".join(lines) + "\n"


def names(count: int) -> str:
    """Queries of dnsperf."""
    pick = random.Random(11)
    return "".join(f"{pick.choice(WORDS)}{pick.randrange(10**6)}.example A\n" for _ in range(count))


def smt(size: int) -> str:
    pick = random.Random(7)
    lines = ["(set-logic QF_LIA)"] + [f"(declare-const x{n} Int)" for n in range(size)]
    lines += [f"(assert (and (< 0 x{n}) (< x{n} {size * 4})))" for n in range(size)]
    lines += [f"(assert (or (< (+ x{a} {pick.randrange(1, 9)}) x{b}) (< (+ x{b} {pick.randrange(1, 9)}) x{a})))"
              for a in range(size) for b in range(a)]  # fmt: skip
    # By default, Z3 tries strategies for seconds of wall-clock time, so that its work depends on other load.
    return "\n".join([*lines, "(check-sat-using smt)"]) + "\n"


def circuit(stages: int) -> str:
    lines = ["ladder", "v1 n0 0 pulse(0 5 0 1n 1n 50n 100n)"]
    lines += [f"r{n} n{n} n{n + 1} 1k\nc{n} n{n + 1} 0 1p\nd{n} n{n + 1} 0 dmod" for n in range(stages)]
    return "\n".join([*lines, ".model dmod d", ".tran 1n 1u", ".print tran v(n5)", ".end"]) + "\n"


FILES = {
    "records.json": lambda: json.dumps(records(30_000)),
    "text.txt": lambda: text(200_000),
    "table.csv": lambda: csv(400_000),
    "items.xml": lambda: xml(60_000),
    "graph.dot": lambda: graph(80),
    "many.c": lambda: c_source(220),
    "many.cc": lambda: cc_source(60),
    "picture.ppm": lambda: picture(900),
    "pages.ps": lambda: postscript(60),
    "sponge.scad": scad,
    "few.cnf": lambda: sat(60_000),
    "many.cnf": lambda: sat(600_000),
    "names.txt": lambda: names(50_000),
    "long.txt": lambda: text(11_700),
    "large.json": lambda: json.dumps(records(300_000)),
    "order.smt2": lambda: smt(34),
    "ladder.cir": lambda: circuit(150),
}


def repository(folder: Path) -> None:
    """A history that git can pack: the same commits everywhere."""
    place = folder / "repository"
    if place.exists():
        return
    pick, stream = random.Random(8), ["reset refs/heads/main\n"]
    for number in range(400):
        body = "".join(f"{' '.join(pick.choices(WORDS, k=8))}\n" for _ in range(60))
        stream.append(f"commit refs/heads/main\ncommitter a <a@b> {1700000000 + number} +0000\ndata 1\n.\n")
        stream += [f"M 644 inline d{number % 7}/f{number % 41}\ndata {len(body)}\n{body}\n"]
    subprocess.run(["git", "init", "-q", "--bare", str(place)], check=True)
    subprocess.run(["git", "-C", str(place), "fast-import", "--quiet"], input="".join(stream).encode(), check=True)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        if not (folder / name).exists():
            made = make()
            (folder / name).write_bytes(made if isinstance(made, bytes) else made.encode())
    repository(folder)
    for name in sorted(FILES):
        print(f"{zlib.crc32((folder / name).read_bytes()):08x} {name}")


if __name__ == "__main__":
    main()
