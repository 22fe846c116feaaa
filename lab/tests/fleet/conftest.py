"""Shared by the tests of fleets: a spec with known figures, and the benchmark that kills workers."""

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "fleet_kill.py"


@pytest.fixture(scope="session")
def killing():
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("fleet_kill", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def spec_file(tmp_path, killing):
    """spec_file(lines…): a spec file for a program whose figure depends only on the block's seed."""

    def write(*lines, blocks=12):
        path = tmp_path / "spec.toml"
        path.write_text(killing.SPEC + f"max-blocks = {blocks}\n" + "\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def job(spec_file):
    """job(lines…): (spec, job), as every host of a fleet gets them."""
    from hakmem_fleet.part import FleetSpec, Job
    from hakmem_lab.plan.model import build, read_toml

    def make(*lines, **more):
        values = read_toml(spec_file(*lines, **more)) | {"kind": "fleet"}
        spec = build(FleetSpec, values, "spec")
        return spec, Job.of(spec, spec.seed)

    return make


@pytest.fixture
def made():
    """made(index, ...): the records of one attempt at a block, as a part returns them."""

    def attempt(index, value=100.0, treated=95.0, *, serial=0, finished=1.0, ok=True, own=0):
        order = ["glibc", "glibc,GAIN=5000", "glibc,GAIN=5000", "glibc"]
        rows = []
        for position, arm in enumerate(order):
            figure = value if arm == "glibc" else treated
            rows.append({
                "type": "run", "block": index, "attempt": own, "phase": "measure", "position": position, "arm": arm,
                "ok": True, "why": None, "value": figure, "metrics": {"regex:took (\\d+)": figure, "rss": figure},
                "wall_s": 0.1, "cpu_s": 0.1, "rss_peak_kib": 1000, "rss_mean_kib": None, "minor_faults": None,
                "major_faults": None, "serial": serial + position,
            })  # fmt: skip
        close = {"type": "block", "block": index, "attempt": own, "phase": "measure", "ok": ok, "why": None}
        return [*rows, close | {"order": order, "disturbed": None, "finished": finished, "serial": serial + 4}]

    return attempt


@pytest.fixture
def header():
    """header(host, ...): the header of a part."""

    def make(host, job="job", cpu="one", sha="1", node=None):
        arm = {"library": None, "version": None, "configuration": None, "variables": {}, "gates": {}}
        arms = [arm | {"name": name, "text": name, "allocator": "glibc", "sha256": sha} for name in
                ("glibc", "glibc,GAIN=5000")]  # fmt: skip
        return {
            "type": "header", "id": f"part-{host}", "fleet": {"job": job, "host": host, "node": node or host, "pid": 1},
            "machine": {"cpu": cpu, "processors": 2, "kernel": "6.1"}, "arms": arms,
            "command": {"argv": ["sh"], "program": "sh", "sha256": sha}, "inputs": {}, "repeat": 1,
            "lab_version": "1", "git": None, "build": None, "created": "now",
        }  # fmt: skip

    return make


@pytest.fixture
def gathered(job, store, header, made):
    """gathered({host: {block: (control, treatment)}}, ...): (result, run file) of a run with these figures."""
    from hakmem_fleet.gather import Gathering
    from hakmem_fleet.result import analyse

    def make(figures, *lines, blocks=None, cpus=None, events=()):
        total = sum(len(own) for own in figures.values())
        spec, asked = job(*lines, blocks=blocks or total)
        with Gathering(spec, asked, store, "command line") as gathering:
            for host, own in figures.items():
                number = gathering.part(header(host, cpu=(cpus or {}).get(host, "one")))
                for place, (index, (control, treated)) in enumerate(own.items()):
                    gathering.ledger.add([(number, made(index, control, treated, serial=5 * place))])
            for what, host in events:
                gathering.leave_out(host, "no such program", what)
            file = gathering.ledger.file
            return analyse(file.header(), list(file.records())), file

    return make
