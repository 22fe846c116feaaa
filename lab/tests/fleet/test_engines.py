"""The files for Slurm and Kubernetes are accepted by the engines' own tools and schemas."""

import os
import re
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

SHARES = 3


@pytest.fixture
def written(here, spec_file, tmp_path):
    """written(engine, flags…): writes a job for an engine; returns its folder."""

    def make(engine, *flags, blocks=6, place="my jobs"):
        folder = tmp_path / place
        words = ("--engine", engine, "-o", folder, "--shares", SHARES, *flags)
        answer = here("fleet", spec_file(blocks=blocks), *words)
        assert (answer.status, answer.err) == (0, "")
        return folder

    return make


def test_the_script_is_one_that_bash_reads(written):
    script = written("slurm") / "job.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text(encoding="utf-8")
    assert re.search(r"^exec .*fleet --measure '.*/my jobs'$", text, re.M)
    directives = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", text, re.M))
    assert (directives["array"], directives["exclusive"], directives["requeue"]) == (f"0-{SHARES - 1}", "", "")


def test_what_to_do_next_is_what_a_shell_reads(here, spec_file, tmp_path):
    folder = tmp_path / "my jobs"
    answer = here("fleet", spec_file(blocks=6), "--engine", "slurm", "-o", folder, "--shares", 2)
    submit, merge = map(shlex.split, answer.out.splitlines())
    assert submit == ["sbatch", str(folder / "job.sbatch")]
    assert merge == ["hak", "fleet", "--merge", str(folder)]


@pytest.fixture
def manifest(written):
    flags = ("--image", "registry.example/hak:1", "--claim", "shared")
    return (written("kubernetes", *flags) / "job.yaml").read_text(encoding="utf-8")


def test_the_manifest_is_what_the_schemas_of_kubernetes_say(manifest):
    validate = pytest.importorskip("kubernetes_validate", reason="needs the package kubernetes-validate")
    objects = list(yaml.safe_load_all(manifest))
    assert [each["kind"] for each in objects] == ["ConfigMap", "Job"]
    for each in objects:
        for version in ("1.29", "1.37"):
            validate.validate(each, version, strict=True)
    broken = objects[1] | {"spec": objects[1]["spec"] | {"completionmode": "Indexed"}}
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.37", strict=True)


def test_a_pod_measures_the_share_that_kubernetes_gives_it(manifest, tmp_path, here, monkeypatch):
    """Lays out files as the manifest mounts them, and runs the container's command there."""
    config, job = yaml.safe_load_all(manifest)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    root = tmp_path / "root"
    for mount in container["volumeMounts"]:
        place = root / mount["mountPath"].lstrip("/")
        if mount["name"] == "job":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(config["data"][mount["subPath"]], encoding="utf-8")
        else:
            place.mkdir(parents=True)
    monkeypatch.setenv("HAK_FLEET_HOST", "node-1")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    command = [str(root / word.lstrip("/")) if word.startswith("/") else word for word in container["command"]]
    assert command[0] == "hak"
    answer = here(*command[1:], "--quiet")
    assert (answer.status, answer.out) == (0, "share 1: 2 blocks measured\n")
    assert len(list((root / "fleet" / "parts").glob("*.jsonl"))) == 1


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_reads_the_manifest(manifest, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(manifest, encoding="utf-8")
    words = ["kubectl", "label", "--local", "-f", str(file), "checked=yes", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | {"HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"checked": "yes"') == 2


def _config(folder: Path, ports: list[int]) -> str:
    name = socket.gethostname()
    return f"""
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ReturnToService=2
MpiDefault=none
JobRequeue=1
NodeName={name} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=main Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch, until):
    """slurm(words…): runs a Slurm command on a cluster with one node, which the fixture starts here."""
    if lacking := [name for name in ("slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(lacking)} (Debian: slurmctld slurmd slurm-client)")
    if os.getuid() != 0:
        pytest.skip("slurmd runs as root")
    folder, ports = tmp_path / "slurm", []
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    with socket.socket() as first, socket.socket() as second:
        for probe in (first, second):
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    config = folder / "slurm.conf"
    config.write_text(_config(folder, ports), encoding="utf-8")
    monkeypatch.setenv("SLURM_CONF", str(config))
    logs = (folder / "log").open("w")
    daemons = [subprocess.Popen([name, "-D"], stdout=logs, stderr=logs) for name in ("slurmctld", "slurmd")]

    def call(*words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    try:
        until(lambda: "idle" in call("sinfo", "-h", "-o", "%T"), 60)
        yield call
    finally:
        call("scancel", "--user", "root")
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(600)
        logs.close()


@pytest.mark.long
def test_slurm_runs_it_and_a_task_that_is_queued_again_goes_on(slurm, written, here, until, records, monkeypatch):
    monkeypatch.setenv("HAK_FLEET_HOST", "")  # tasks are named by Slurm
    folder = written("slurm", "--set", "repeat=20", blocks=60, place="jobs")
    assert "to start at" in slurm("sbatch", "--test-only", str(folder / "job.sbatch"))
    number = re.search(r"batch job (\d+)", slurm("sbatch", str(folder / "job.sbatch")))[1]

    def finished():
        lines = [line for path in (folder / "parts").glob("*.jsonl") for line in path.read_text().splitlines()]
        return sum('"type": "block"' in line for line in lines)

    until(lambda: finished() >= 3, 120)
    slurm("scontrol", "requeue", f"{number}_0")
    until(lambda: not slurm("squeue", "-h").strip(), 400)
    result = here("fleet", "--merge", folder, "--json", "-").result()
    assert (result["blocks"], result["final"]) == (60, True)
    assert sorted(r["block"] for r in records("block", phase="measure", ok=True)) == list(range(60))
    hosts = [r for r in records("host") if r["host"] == socket.gethostname()]
    assert len(hosts) == SHARES + 1, "one share was begun twice"
