"""A mistake in the flags of hak fleet: one line says what to do, and nothing is started."""

import re

import pytest

DASK, SLURM, KUBERNETES = (("--engine", engine) for engine in ("dask", "slurm", "kubernetes"))
POD = (*KUBERNETES, "-o", "out", "--shares", "2")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "--engine is missing: one of dask, slurm, kubernetes"),
        (("--engine", "slrum"), "there is no engine 'slrum': did you mean 'slurm'"),
        (DASK, "name the cluster, --scheduler ADDRESS, or try it on this machine, --workers N"),
        ((*DASK, "--workers", "2", "--scheduler", "tcp://x:1"), "one of the two"),
        (SLURM, "-o DIR, a folder that all hosts see, is missing"),
        ((*SLURM, "-o", "out"), "--shares N, on how many hosts, is missing"),
        ((*SLURM, "-o", "out", "--shares", "99"), "99 shares of 12 blocks: some would have none"),
        ((*KUBERNETES, "-o", "out", "--shares", "2"), "--image is missing: an image with hak and the program"),
        ((*KUBERNETES, "-o", "out", "--shares", "2", "--image", "x"), "--claim is missing"),
        ((*POD, "--image", "a b", "--claim", "x"), "--image: 'a b' names no image"),
        ((*POD, "--image", "x", "--claim", "My_Claim"), "--claim: 'My_Claim' is no name of Kubernetes"),
        ((*POD, "--image", "x", "--claim", "c." + 252 * "d"), "is no name of Kubernetes"),
        ((*SLURM, "-o", 'out/"x"', "--shares", "2"), "-o: Slurm takes no quote, backslash or line break"),
        ((*DASK, "--workers", "2", "--set", "builds=3"), "builds: several builds are for one machine"),
        ((*DASK, "--workers", "2", "--set", "detect=2%"), "detect: a fleet measures max-blocks blocks"),
        ((*DASK, "--workers", "2", "--set", "max-blcks=2"), "unknown key 'max-blcks': did you mean 'max-blocks'"),
        (("--require", "go", *DASK), "there is no verdict 'go'"),
    ],
)
def test_a_mistake_is_one_line(here, spec_file, store, tmp_path, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    answer = here("fleet", spec_file(), *flags)
    assert (answer.status, said in answer.message()) == (2, True), answer.err
    assert not store.exists()
    assert not (tmp_path / "out").exists()


def test_a_spec_of_another_kind(here, tmp_path):
    spec = tmp_path / "soak.toml"
    spec.write_text('kind = "soak"\ncommand = ["true"]\n')
    answer = here("fleet", spec, *DASK, "--workers", 2)
    assert answer.status == 2
    assert "a fleet runs specs of the kind ab, and this one is of the kind 'soak'" in answer.message()


@pytest.mark.parametrize("words", [(), ("a.toml", "b.toml"), ("ls",)])
def test_it_takes_one_spec(here, words):
    assert "takes one file that ends in .toml" in here("fleet", *words, *DASK).message()


@pytest.mark.parametrize("flag", ["--merge", "--measure"])
def test_a_folder_without_a_job(here, tmp_path, flag):
    share = ("--share", 0) if flag == "--measure" else ()
    assert "holds no fleet's job" in here("fleet", flag, tmp_path, *share).message()


def test_a_share_that_is_none(here, spec_file, tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    job = tmp_path / "job"
    words = ("fleet", spec_file(), *SLURM, "-o", job, "--shares", 2)
    assert here(*words).status == 0
    assert "--share is missing" in here("fleet", "--measure", job).message()
    assert "there is no share 5; they are 0 to 1" in here("fleet", "--measure", job, "--share", 5).message()
    assert "holds a fleet's job already" in here(*words).message()
    assert "nothing to collect yet: no host has begun" in here("fleet", "--merge", job).message()


def test_without_dask(here, spec_file, monkeypatch):
    from hakmem_lab import extras

    real = extras.importlib.util.find_spec
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None if name == "distributed" else real(name))
    answer = here("fleet", spec_file(), *DASK, "--workers", 2)
    assert re.search(r"hak fleet --engine dask needs .* -m pip install distributed", answer.message())


def test_more_blocks_are_another_run(here, gathered):
    _, file = gathered({name: {index: (100.0, 95.0)} for index, name in enumerate("abc")})
    assert "cannot be prolonged" in here("resume", file.id, "--more", 3).message()
