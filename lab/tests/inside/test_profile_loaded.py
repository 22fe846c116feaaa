"""The heap profile of code that allocates as soon as it is loaded."""

import subprocess

import pytest

from hakmem_lab.inside.profile import forms, take

PLUGIN = """
#include <stdlib.h>
void *kept[100];
__attribute__((noinline)) void fill_plugin(int i) { kept[i] = malloc(3000); __asm__ volatile("" : : : "memory"); }
void begin_plugin(void) { for (int i = 0; i < 100; i++) fill_plugin(i); __asm__ volatile("" : : : "memory"); }
"""
HOST = """
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **words) {
  free(malloc(10000));
  for (int i = 1; i < count; i++) {
    void *plugin = dlopen(words[i], RTLD_NOW);
    ((void (*)(void))dlsym(plugin, "begin_plugin"))();
  }
  return 0;
}
"""


@pytest.fixture
def build(tmp_path):
    def build(host: str) -> None:
        for name, text, flags in (("one", PLUGIN, ("-shared", "-fPIC")), ("host", host, ("-ldl",))):
            (tmp_path / f"{name}.c").write_text(text)
            words = ["cc", "-O1", "-fno-builtin", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
            subprocess.run([*words, "-o", name, f"{name}.c", *flags], cwd=tmp_path, check=True)

    return build


@pytest.fixture
def env(hakmem, tmp_path):
    return {"LD_PRELOAD": str(hakmem), "HAKMEM_PROFILE_FILE": str(tmp_path / "%p.pb"), "HAKMEM_PROFILE_EXIT": "1",
            "HAKMEM_PROFILE_RATE": "1"}  # fmt: skip


def folded(profile):
    return forms.folded(profile, profile.names())


def test_its_stacks_are_known_at_once(build, env, tmp_path):
    build(HOST)
    two = tmp_path / "two"
    two.write_bytes((tmp_path / "one").read_bytes())
    subprocess.run([tmp_path / "host", tmp_path / "one", two], env=env, check=True)
    (file,) = tmp_path.glob("*.pb")
    text = folded(forms.read(file))
    lines = [line for line in text.splitlines() if line.endswith("fill_plugin") or "fill_plugin " in line]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) >= 200 * 3000
    assert all("main;begin_plugin;fill_plugin" in line for line in lines)


def test_they_are_known_when_it_is_unloaded(build, env, tmp_path):
    """Read from outside while the program runs, and from what it writes at its exit."""
    after = 'dlclose(plugin);\n  }\n  puts("");\n  fflush(stdout);\n  getchar();'
    build(HOST.replace("  }\n", f"    {after}\n", 1).replace("#include", "#include <stdio.h>\n#include", 1))
    words = [tmp_path / "host", tmp_path / "one"]
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        live = take.snapshot(process.pid)
        process.communicate(b"\n")
    (file,) = tmp_path.glob("*.pb")
    for profile in (live, forms.read(file)):
        assert "main;begin_plugin;fill_plugin 307200" in folded(profile)
