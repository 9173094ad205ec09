#!/usr/bin/python3
"""Every header compiles alone, and twice in a row.

    check_headers.py ROOT BUILD COMPILER [FLAG ...]

The build has compiled those that one of its sources includes before anything else, and tools/check_includes.py sees that they
have #pragma once. Of the others only the syntax is checked, several headers at a time. Those of the vectorized kernels need
an instruction set.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

VECTORIZED = ("kernels/dense_",)  # how their paths begin
FIRST = re.compile(r'(?:\s|//.*\n)*#include "(.+)"')


def compiled_first(build):
    """Headers before which nothing but comments stands in a source that the build has compiled."""
    found = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        folder = pathlib.Path(entry["directory"])
        if (folder / entry["output"]).exists():
            match = FIRST.match((folder / entry["file"]).read_text())
            found.add(match and match[1])
    return found


def check(root, compiler, path):
    """What the compiler says about one header; empty if it compiles."""
    flags = ["-march=x86-64-v4"] if path.startswith(VECTORIZED) else []
    command = [*compiler, *flags, "-fsyntax-only", "-x", "c++", "-I", str(root), "-"]
    ran = subprocess.run(command, input=f'#include "{path}"\n' * 2, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else f"{path} does not compile alone:\n{ran.stderr}"


def main():
    root, build, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    folders = ("sim", "topology", "network_models", "kernels", "algorithms", "scenarios", "tools", "tests")
    headers = sorted(file.relative_to(root).as_posix() for folder in folders for file in (root / folder).rglob("*.hpp"))
    if os.uname().machine != "x86_64":
        headers = [path for path in headers if not path.startswith(VECTORIZED)]
    by_build = compiled_first(build)
    left = [path for path in headers if path not in by_build]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [said for said in pool.map(lambda path: check(root, compiler, path), left) if said]
    print("\n".join(complaints) + f"\n{len(headers)} headers, {len(headers) - len(left)} of them compiled by the build, "
          f"{len(complaints)} of which do not compile alone")
    return 1 if complaints or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
