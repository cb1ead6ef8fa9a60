"""Programs that the recipes are tried with, and what they make of an object."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HEALTH = Path(__file__).parents[3] / "docs" / "recipes" / "argocd-health.lua"

WITHOUT_LIBRARIES = """
local write, script = io.write, assert(loadstring(io.read("*a")))
for _, library in ipairs({"io", "string", "math", "debug", "coroutine"}) do _G[library] = nil end
getmetatable("").__index = nil
local health = script()
write(health.status, "\\n", health.message)
"""
"""Runs a script as Argo CD 3.5 does by default (util/lua/lua.go): of the libraries there are the basic one, `table`,
`package` and two functions of `os`."""


def program(name: str) -> str:
    """A program's path; where there is none, tests are skipped, or fail if they are required."""
    found = shutil.which(name)
    if found is None:
        reason = f"no {name}: install the package of this name"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def health(body: Any) -> tuple[str, str]:
    """Status and message that the health check gives an object."""
    script = f"obj = {lua(body)}\n{HEALTH.read_text(encoding='utf-8')}"
    command = [program("lua5.1"), "-e", WITHOUT_LIBRARIES]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == 0, done.stderr
    status, _, message = done.stdout.partition("\n")
    return status, message


def lua(value: Any) -> str:
    """A JSON value as a Lua expression; null is nil, as in gopher-lua."""
    match value:
        case dict():
            return "{" + ", ".join(f"[{lua(name)}] = {lua(one)}" for name, one in value.items()) + "}"
        case list():
            return "{" + ", ".join(map(lua, value)) + "}"
        case str():
            # Lua 5.1 knows bytes by three decimal digits, and no other escape that JSON has as well.
            return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
        case None:
            return "nil"
        case _:
            return json.dumps(value)


def jq(expression: str, body: Any) -> Any:
    """The one thing that jq makes of an object."""
    command = [program("jq"), "--compact-output", expression]
    done = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
