"""`hak mcp`: its tools, whose commands run in this process; and once as an agent's client speaks to it."""

import asyncio
import json
import os
import sys

import anyio
import pytest

from hakmem_lab.cli import mcp


@pytest.fixture
def answer_of(here, monkeypatch):
    """answer_of(tool(…)): the answer of a tool."""

    async def called(*words):
        return here(*words).result()

    monkeypatch.setattr(mcp, "_hak", called)
    return asyncio.run


def test_whether_a_change_is_better_is_one_call(answer_of, modelled):
    program = modelled(lambda run: {"stdout": f"ops {run.argv[1]}\n"})
    found = answer_of(mcp.is_better(f"{program} 1000", f"{program} 1200", None, r"regex:ops (\d+)", True))
    assert found["verdict"] == "GO" and found["answer"]
    shown = answer_of(mcp.show_run())
    assert shown["run"] == found["run"] and shown["verdict"] == "GO"


def test_a_quick_answer_is_gone_on_with(answer_of, modelled):
    program = modelled(lambda run: {"wall_s": 0.1 + run.number % 3 / 1000})
    first = answer_of(mcp.compare_allocators([str(program)], ["glibc", "default"]))
    assert first["headline"].startswith("First estimate after 5 blocks")
    assert answer_of(mcp.go_on(first["run"]))["blocks"] > 5


def test_every_tool_is_offered_and_a_mistake_is_the_line_that_a_user_reads(store):
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    env = dict(os.environ) | {"HAK_STORE": str(store)}
    server = StdioServerParameters(command=sys.executable, args=["-m", "hakmem_lab.cli.main", "mcp"], env=env)
    right = {"command": ["true"]}
    wrong = {"before": "glibc", "after": "hakmemm", "command": ["true"]}

    async def steps():
        async with stdio_client(server) as streams, ClientSession(*streams) as client:
            await client.initialize()
            tools, checked = (await client.list_tools()).tools, await client.call_tool("check_program", right)
            return tools, checked, await client.call_tool("is_better", wrong)

    found, checked, answer = anyio.run(steps)
    assert json.loads(checked.content[0].text)["verdict"].startswith("served by")
    assert {tool.name for tool in found} == {tool.__name__ for tool in mcp.TOOLS}
    assert all(tool.description for tool in found)
    said = answer.content[0].text
    assert (answer.is_error if hasattr(answer, "is_error") else answer.isError) and "did you mean 'hakmem'?" in said
    assert "Traceback" not in said
