"""`hak mcp` over standard input and output, as an agent's client speaks to it."""

import json
import os
import sys

import anyio
import pytest

from hakmem_lab.cli.mcp import TOOLS


@pytest.fixture
def session(store):
    """session(steps): starts a server and awaits steps(client) with a client of that server."""
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    env = dict(os.environ) | {"HAK_STORE": str(store)}
    words = StdioServerParameters(command=sys.executable, args=["-m", "hakmem_lab.cli.main", "mcp"], env=env)

    def run(steps):
        async def whole():
            async with stdio_client(words) as streams, ClientSession(*streams) as client:
                await client.initialize()
                return await steps(client)

        return anyio.run(whole)

    return run


def body(answer):
    return json.loads(answer.content[0].text)


def test_whether_a_change_is_better_is_one_call(session, fakes, tmp_path):
    (tmp_path / "count").write_text("")
    old, new = (f"sh -c 'sleep 0.1; echo ops {rate}'" for rate in (1000, 1200))  # as long as a run is at least

    async def steps(client):
        words = {"before": old, "after": new, "metric": r"regex:ops (\d+)", "higher_is_better": True}
        asked = await client.call_tool("is_better", words)
        return body(asked), body(await client.call_tool("show_run", {}))

    found, shown = session(steps)
    assert found["verdict"] == "GO" and found["answer"]
    assert shown["run"] == found["run"] and shown["verdict"] == "GO"


def test_a_quick_answer_is_gone_on_with(session, fakes):
    async def steps(client):
        words = {"command": ["sleep", "0.1"], "allocators": ["glibc", "default"]}
        first = body(await client.call_tool("compare_allocators", words))
        return first, body(await client.call_tool("go_on", {"run": first["run"]}))

    first, more = session(steps)
    assert first["headline"].startswith("First estimate after 5 blocks") and more["blocks"] > 5


def test_every_tool_is_offered_and_a_mistake_is_the_line_that_a_user_reads(session, fakes):
    async def steps(client):
        wrong = {"before": "glibc", "after": "hakmemm", "command": ["true"]}
        return (await client.list_tools()).tools, await client.call_tool("is_better", wrong)

    found, answer = session(steps)
    assert {tool.name for tool in found} == {tool.__name__ for tool in TOOLS}
    assert all(tool.description for tool in found)
    said = answer.content[0].text
    assert (answer.is_error if hasattr(answer, "is_error") else answer.isError) and "did you mean 'hakmem'?" in said
    assert "Traceback" not in said
