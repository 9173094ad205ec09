#!/usr/bin/python3
"""Every header compiles alone, and twice in a row.

    check_headers.py ROOT COMPILER [FLAG ...]

Only the syntax is checked, several headers at a time. Those of the vectorized kernels need an instruction set.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

VECTORIZED = ("kernels/dense_",)  # how their paths begin


def check(root, compiler, path):
    """What the compiler says about one header; empty if it compiles."""
    flags = ["-march=x86-64-v4"] if path.startswith(VECTORIZED) else []
    command = [*compiler, *flags, "-fsyntax-only", "-x", "c++", "-I", str(root), "-"]
    ran = subprocess.run(command, input=f'#include "{path}"\n' * 2, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else f"{path} does not compile alone:\n{ran.stderr}"


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    folders = ("sim", "topology", "network_models", "kernels", "algorithms", "scenarios", "tools", "tests")
    headers = sorted(file.relative_to(root).as_posix() for folder in folders for file in (root / folder).rglob("*.hpp"))
    if os.uname().machine != "x86_64":
        headers = [path for path in headers if not path.startswith(VECTORIZED)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [said for said in pool.map(lambda path: check(root, compiler, path), headers) if said]
    print("\n".join(complaints) + f"\n{len(headers)} headers, {len(complaints)} of which do not compile alone")
    return 1 if complaints or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
