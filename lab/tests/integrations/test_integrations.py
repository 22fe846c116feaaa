"""The GitHub action and the GitLab job: they are valid and safe against injection, and their scripts work."""

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
HERE = ROOT / "lab" / "integrations"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
JOB = yaml.safe_load((HERE / "gitlab.yml").read_text(encoding="utf-8"))[".hak-verdict"]
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
RECORDER = """#!/bin/sh
for word; do printf '%s\\0' "$word"; done >>"$RECORD"; printf '\\n\\0' >>"$RECORD"
case "$*" in *"$EXISTS_FOR"*) [ -n "$EXISTS_FOR" ] && printf '%s\\n' "$ANSWER" ;; esac
exit 0
"""


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path):
    """(environment, folder of programs) as in a build; `hak` runs this package."""
    bin_ = tmp_path / "temp" / "hak" / "bin"
    executable(bin_ / "hak", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hakmem_lab.cli.main "$@"\n')
    env = {"PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "lab"),
           "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"], "HAK_STORE": str(tmp_path / "runs"),
           "RUNNER_TEMP": str(tmp_path / "temp"), "GITHUB_ACTION_PATH": str(ROOT),
           "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
           "RECORD": str(tmp_path / "record"), "ANSWER": "", "EXISTS_FOR": ""}  # fmt: skip
    return env, bin_


def ran(words, env, **keywords):
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=600, **keywords)


def step(name, env):
    return ran(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]], env)


def recorded(env):
    """The calls of a stand-in program (RECORDER), each as a list of words."""
    calls = Path(env["RECORD"]).read_text().split("\n\0")
    return [call.split("\0")[:-1] for call in calls if call]


def test_an_action_is_complete():
    assert {"name", "description", "inputs", "outputs", "runs"} <= set(ACTION)
    assert ACTION["runs"]["using"] == "composite"
    for entry in STEPS.values():
        assert {"name", "shell", "run"} <= set(entry)
    for entry in ACTION["inputs"].values():
        assert entry["description"]
        assert entry.get("required") or "default" in entry


def test_every_input_is_declared_and_used():
    text = json.dumps(ACTION["runs"])
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])


def test_no_expression_stands_in_a_script():
    """Values that a pull request can choose reach scripts only as variables, never as script text."""
    scripts = [entry["run"] for entry in STEPS.values()] + JOB["before_script"] + JOB["script"]
    assert not [script for script in scripts if "${{" in script]


@pytest.mark.parametrize("script", [*(entry["run"] for entry in STEPS.values()), *JOB["before_script"], *JOB["script"]])
def test_scripts_are_a_shells(script):
    done = ran(["bash", "-n"], os.environ, input=script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["measure", "comment", "comment-gitlab"])
def test_files_are_a_shells(name):
    path = HERE / name
    assert os.access(path, os.X_OK)
    assert ran(["bash", "-n", path], os.environ).returncode == 0


def test_a_job_is_complete():
    assert set(JOB["artifacts"]["reports"]) == {"junit", "metrics", "dotenv"}
    assert all(isinstance(line, str) for line in JOB["before_script"] + JOB["script"])
    for path in JOB["artifacts"]["reports"].values():
        assert path == "verdict.env" or (HERE / "measure").read_text().count(Path(path).name)


def arguments(program, treatment="glibc,RATE=1100", more=""):
    return (
        f"ab --control glibc,RATE=1000 --treatment {treatment} --metric 'regex:ops (\\d+)' --higher-is-better "
        f"--repeat 1 --looks 1 --max-blocks 6 --quiet {more} -- {program} -c 'echo ops $RATE'"
    )


def test_a_measurement(tools, tmp_path):
    env, _ = tools
    done = step("Measure", env | {"ARGUMENTS": arguments("sh")})
    assert done.returncode == 0, done.stderr
    run, verdict = (tmp_path / "output").read_text().splitlines()
    runs = tmp_path / "runs"
    assert verdict == "verdict=GO"
    assert run == f"run={json.loads((runs / 'result.json').read_text())['run']}"
    assert (runs / "verdict.md").read_text() == (tmp_path / "summary").read_text()
    assert any(line.startswith("### GO: ") for line in (tmp_path / "summary").read_text().splitlines())
    assert "\n::notice title=GO" in done.stdout
    (suite,) = ET.parse(runs / "junit.xml").getroot()
    assert suite.get("tests") == "1"
    assert (runs / "metrics.txt").read_text().endswith("# EOF\n")
    assert len(list(runs.glob("*.jsonl"))) == 1


@pytest.mark.parametrize("words", ["ab --margin 'x y'", "$(touch {0})", "`touch {0}`", "ab; touch {0}"])
def test_arguments_are_words_and_nothing_else(tools, tmp_path, words):
    env, _ = tools
    done = step("Measure", env | {"ARGUMENTS": words.format(tmp_path / "made")})
    assert done.returncode != 0
    assert done.stderr.startswith("hak: ")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("verdict", "fail_on", "status"),
    [("NO-GO", "NO-GO", 1), ("GO", "NO-GO", 0), ("INCONCLUSIVE", "NO-GO INCONCLUSIVE", 1), ("GO", "", 0), ("", "", 0),
     ("", "NO-GO", 0)],
)  # fmt: skip
def test_which_verdicts_fail(tools, verdict, fail_on, status):
    env, _ = tools
    assert step("Judge", env | {"VERDICT": verdict, "FAIL_ON": fail_on}).returncode == status


@pytest.mark.parametrize(("existing", "method"), [("", "POST"), ("77", "PATCH")])
def test_one_comment_a_key(tools, tmp_path, existing, method):
    env, bin_ = tools
    executable(bin_ / "gh", RECORDER)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "verdict.md").write_text("### GO\n")
    env |= {"GITHUB_REPOSITORY": "a/b", "KEY": "x --> y", "PULL_REQUEST": "5", "ANSWER": existing}
    done = step("Comment", env | {"EXISTS_FOR": "--paginate" if existing else ""})
    assert done.returncode == 0, done.stderr
    look, write = recorded(env)
    assert look[:3] == ["api", "--paginate", "repos/a/b/issues/5/comments"]
    target = "repos/a/b/issues/comments/77" if existing else "repos/a/b/issues/5/comments"
    assert write[:4] == ["api", "--method", method, target]
    assert write[4:] == ["-F", write[5]] and write[5].startswith("body=@")


def test_what_is_commented(tools, tmp_path):
    """A key with "-->" must not end the HTML comment that contains it."""
    env, bin_ = tools
    executable(
        bin_ / "gh", '#!/bin/sh\nfor word; do case $word in body=@*) cat "${word#body=@}" >"$RECORD" ;; esac; done'
    )
    (tmp_path / "v.md").write_text("### GO\n")
    env |= {"GITHUB_REPOSITORY": "a/b"}
    assert ran([HERE / "comment", "x --> y", "5", tmp_path / "v.md"], env).returncode == 0
    assert (tmp_path / "record").read_text() == "<!-- verdict: x-----y -->\n### GO\n"


@pytest.mark.parametrize(
    ("notes", "method"), [([], "POST"), ([{"id": 3, "body": "<!-- verdict: hak -->\nold"}], "PUT")]
)
def test_a_note_of_a_merge_request(tools, tmp_path, notes, method):
    env, bin_ = tools
    executable(bin_ / "curl", RECORDER)
    (tmp_path / "v.md").write_text("### GO\n")
    env |= {"CI_API_V4_URL": "http://h/v4", "CI_PROJECT_ID": "9", "CI_MERGE_REQUEST_IID": "5",
            "HAK_GITLAB_TOKEN": "s3cret", "ANSWER": json.dumps(notes), "EXISTS_FOR": "per_page"}  # fmt: skip
    done = ran([HERE / "comment-gitlab", "hak", tmp_path / "v.md"], env)
    assert done.returncode == 0, done.stderr
    look, write = recorded(env)
    assert look[-1] == "http://h/v4/projects/9/merge_requests/5/notes?per_page=100"
    assert write[write.index("--request") + 1] == method
    target = "http://h/v4/projects/9/merge_requests/5/notes" + ("/3" if notes else "")
    assert target in write
    assert not any("s3cret" in word for word in [*look, *write])
