"""Wrong flags give one line that names the flag and exit status 2; nothing is started."""

import subprocess
import sys

import pytest

LAUNCH = (sys.executable, "-m", "hakmem_lab.cli.main")

AB = (
    "ab",
    "--control",
    "glibc",
    "--treatment",
    "glibc",
    "--repeat",
    "1",
    "--looks",
    "1",
    "--max-blocks",
    "6",
    "--quiet",
)


@pytest.fixture
def refused(here, fakes, store):
    def call(*flags, words=AB, command=("true",)):
        answer = here(*words, *flags, "--", *command)
        assert answer.status == 2, answer
        assert not store.exists()
        return answer.message()

    return call


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--alpha", "nan"], "alpha: a finite number is wanted"),
        (["--alpha", "inf"], "alpha: a finite number is wanted"),
        (["--margin", "nan%"], "margin: a finite number is wanted"),
        (["--margin", "x%"], "margin: a share is written as 1% or 0.01"),
        (["--timeout", "nan"], "timeout: a duration is written as"),
        (["--timeout", "1.2.3"], "timeout: a duration is written as"),
        (["--guardrail", "rss=inf%"], "limit: a finite number is wanted"),
        (["--seed", str(2**63)], "it must be at most 9,223,372,036,854,775,807"),
    ],
)
def test_a_number_that_is_none_is_said_to_be_none(refused, flags, said):
    assert said in refused(*flags)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300"])
@pytest.mark.parametrize(
    "words", [("record", "-o", "x.trace", "--seconds"), ("profile", "--seconds"), ("top", "--interval")]
)
def test_a_time_is_one_that_can_be_waited_for(here, words, number):
    """Such a time would make hak wait forever, or not at all."""
    answer = here(*words, number, "1")
    assert answer.status == 2
    assert words[-1] in answer.message()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--margn", "1%"], "--margin"),
        (["--max-block", "6"], "--max-blocks"),
        (["--max-blocks", "many"], "--max-blocks"),
        (["--alpha", "x"], "--alpha"),
        (["--seed", "x"], "--seed"),
    ],
)
def test_a_flag_that_the_parser_refuses(refused, flags, said):
    assert said in refused(*flags)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--margin", "a lot"], "margin"),
        (["--margin", "x%"], "margin"),
        (["--margin", "0%"], "margin"),
        (["--margin", "100%"], "margin"),
        (["--margin", "nan"], "margin"),
        (["--guardrail", "rss"], "--guardrail: 'rss'"),
        (["--guardrail", "rss=much"], "rss"),
        (["--guardrail", "rsss=5%"], "did you mean 'rss'?"),
        (["--env", "A"], "--env: 'A'"),
        (["--env", "=1"], "env"),
        (["--require", "go"], "did you mean 'GO'?"),
        (["--require", "NOGO"], "did you mean 'NO-GO'?"),
        (["--pin", "a"], "pin"),
        (["--pin", "4095"], "4095"),
        (["--pin", ""], "pin"),
        (["--repeat", "often"], "repeat"),
        (["--repeat", "0"], "repeat"),
        (["--repeat", "1.5"], "repeat"),
        (["--timeout", "soon"], "timeout"),
        (["--timeout", "0"], "timeout"),
        (["--timeout", "inf"], "timeout"),
        (["--looks", "9"], "looks"),
        (["--max-blocks", "5"], "too few"),
        (["--alpha", "0.7"], "alpha"),
        (["--metric", "waall"], "did you mean 'wall'?"),
        (["--metric", "regex:("], "metric"),
        (["--treatment", "glibcc"], "did you mean 'glibc'?"),
        (["--treatment", ""], "treatment"),
        (["--control", "glibc,X"], "control"),
    ],
)
def test_a_value_that_cannot_be(refused, flags, said):
    assert said in refused(*flags)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["abb"], "did you mean 'ab'?"),
        (["ab", "--control", "glibc", "--quiet", "--", "true"], "treatment"),
        (["ab", "--control", "glibc", "--treatment", "glibc", "--quiet"], "command"),
        (["ab", "spec.txt", "--quiet"], ""),
        (["compare", "--allocators", "--max-blocks", "6", "--repeat", "1", "--quiet", "--", "true"], "allocators"),
        (["compare", "--allocators", "glibc", "--quiet", "--", "true"], "allocators"),
        (["compare", "--allocators", "glibc", "glibcc", "--quiet", "--", "true"], "did you mean 'glibc'?"),
        (["matrix", "--quiet"], ""),
        (["show", "nothing"], "nothing"),
        (["show"], "last"),
        (["resume", "nothing"], "nothing"),
        (["report", "nothing"], "nothing"),
        (["decide", "nothing", "adopt"], "nothing"),
        (["export", "nothing"], "nothing"),
        (["export", "--format", "xml"], "--format"),
    ],
)
def test_commands_that_cannot_be(here, store, words, said):
    answer = here(*words)
    assert answer.status == 2, answer
    assert said.casefold() in answer.message().casefold()
    assert not store.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "--allocators", "glibc", "glibc,A=1", "glibc,A=2"],
        ["latency", "--allocators", "glibc", "glibc,A=1", "glibc,A=2"],
        ["syscalls", "--allocators", "glibc"],
    ],
)
def test_a_verdict_that_cannot_be_is_not_required(refused, fakes, words):
    message = refused("--require", "GO", "--quiet", words=words, command=[fakes.program, "exit", "0"])
    assert "--require: there will be no verdict" in message


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("matrix", 'factors = { a = "A=1", b = "B=1" }\nbase = "glibc"\n'),
        ("syscalls", 'allocators = ["glibc"]\nops = [10, 20]\n'),
    ],
)
def test_a_verdict_that_a_spec_cannot_give_is_not_required(here, store, tmp_path, kind, keys):
    spec = tmp_path / "spec.toml"
    word = "{ops}" if kind == "syscalls" else "0"
    spec.write_text(f'kind = "{kind}"\ncommand = "true {word}"\n{keys}', encoding="utf-8")
    answer = here(kind, spec, "--require", "GO", "--quiet")
    assert (answer.status, store.exists()) == (2, False)
    assert "--require: there will be no verdict" in answer.message()


@pytest.mark.parametrize("command", [["no-such-program-x"], [""], ["/etc/hostname"], ["/tmp"]])
def test_a_program_that_cannot_be(refused, command):
    assert command[0] in refused(command=command)


@pytest.mark.parametrize(
    ("words", "why"),
    [(["exit", "3"], "exit status 3"), (["crash"], "SIGSEGV"), (["abort"], "SIGABRT"), (["signal", "40"], "40")],
)
def test_a_program_that_fails_in_its_trial(refused, fakes, words, why):
    assert why in refused(command=[fakes.program, *words])


def test_a_program_that_hangs_in_its_trial(refused, fakes):
    assert "still running" in refused("--timeout", "200ms", command=[fakes.program, "sleep", "60000"])


def test_a_command_with_line_breaks_is_shown_on_one_line(refused):
    assert "exit status 3" in refused(command=["sh", "-c", "true\nexit 3\n"])


@pytest.mark.parametrize("kind", ["static", "own", "library", "setuid"])
def test_an_allocator_that_is_not_loaded(refused, fakes, tmp_path, kind):
    setuid = tmp_path / "setuid"
    setuid.write_bytes(fakes.program.read_bytes())
    setuid.chmod(0o4755)
    program = {"static": fakes.static_program, "own": fakes.own_malloc("default"), "setuid": setuid}.get(
        kind, fakes.program
    )
    arm = fakes.other_library if kind == "library" else fakes.allocator
    message = refused("--treatment", arm, command=[program, "exit", "0"])
    assert {"static": "static", "own": "itself", "setuid": "setuid", "library": "libc"}[kind] in message


def test_a_result_that_could_not_be_written_is_refused_before_the_measurement(refused):
    assert "--json" in refused("--json", "/nonexistent/folder/x.json")


@pytest.mark.parametrize("where", ["/proc/store", "/dev/null/store", "/etc/hostname"])
def test_a_store_that_cannot_be_written(here, where):
    answer = here(*AB, "--store", where, "--", "true")
    assert answer.status == 2
    assert where in answer.message()
    assert "--store" in answer.message()


def test_the_refusal_is_the_same_in_a_process_of_its_own(hak, store):
    answer = hak(*AB, "--treatment", "glibcc", "--", "true")
    assert answer.status == 2
    assert answer.message() == "hak: treatment: there is no allocator 'glibcc': did you mean 'glibc'?"
    assert not store.exists()


def test_words_that_are_not_utf8(hak, fakes):
    """File names may be other bytes than UTF-8. The run is measured, stored and shown, or refused in one line."""
    answer = hak(*AB, "--json", "-", "--", fakes.program, "arguments", b"\xff\xfe")
    assert "Traceback" not in answer.err
    assert answer.status in (0, 2)


@pytest.mark.parametrize("seed", ["0", str(2**63 - 1)])
def test_a_seed_is_stored_and_can_be_queried(here, seed):
    assert here(*AB, "--seed", seed, "--", "true").status == 0
    answer = here("export", "--sql", "SELECT seed FROM headers", "--format", "csv")
    assert answer.status == 0, answer.err
    assert answer.out.split() == ["seed", seed]


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_a_seed_beyond_what_a_table_holds_is_refused(here, seed):
    answer = here(*AB, "--seed", seed, "--", "true")
    assert answer.status == 2
    assert "seed" in answer.err


def test_an_alpha_that_no_blocks_reach_is_refused(here):
    words = [*AB[:5], "--repeat", "1", "--looks", "1", "--quiet", "--alpha", "1e-17"]
    assert "at least" in (message := here(*words, "--max-blocks", "20", "--", "true").message()), message


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_a_full_disk_is_told_in_one_line(word):
    """Also if the output is buffered and the error appears only at the end of the process."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([*LAUNCH, word], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "hak: standard output cannot be written: No space left on device\n"


def test_a_folder_that_is_gone_is_said(tmp_path):
    words = [*LAUNCH, "trace", "program.trace"]
    gone = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", *words]
    done = subprocess.run(gone, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "hak: the folder that hak was started in is gone: change to another one\n"


def test_without_a_home_there_is_one_line(monkeypatch):
    from hakmem_lab.errors import LabError
    from hakmem_lab.system.compiled import cache_folder

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(LabError, match="set XDG_CACHE_HOME"):
        cache_folder()


def test_a_store_that_is_a_file_and_an_empty_decision(here, tmp_path):
    (tmp_path / "file").touch()
    assert "is no folder" in here("list", "--store", tmp_path / "file").message()
    assert "TEXT is empty" in here("decide", "last", " ").message()


def test_a_heap_profile_that_is_not_there(here, tmp_path):
    missing = tmp_path / "missing"
    assert f"{missing} cannot be read: No such file" in here("profile", "--diff", missing, missing).message()
