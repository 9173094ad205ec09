#!/usr/bin/python3
"""Holds the project's include table and checks every #include of the tree against it.

    tools/check_includes.py [ROOT]

Who may include whom is the architecture: that algorithms/ cannot see sim/engine or sim/mpi is why an algorithm runs
unchanged in both. Libraries have owners for the same reason: what only one file includes can be replaced there.
Prints one line per violation; the exit status is 1 if there is one. Changing a table gets an entry in DESIGN.md.
"""
import pathlib
import re
import sys

# A file includes its own folder and these.
FLOOR_4 = ("topology", "network_models", "kernels", "algorithms")
SIM = ("sim/base", "sim/record", "sim/node", "sim/engine", "sim/mpi")
MAY_INCLUDE = {
    "sim/base": (),
    "sim/record": ("sim/base",),
    "sim/node": ("sim/base", "sim/record"),
    "sim/engine": ("sim/base", "sim/record", "sim/node"),
    "sim/mpi": ("sim/base", "sim/record", "sim/node"),
    "topology": ("sim/base", "sim/node"),
    "kernels": ("sim/base", "sim/node"),
    "algorithms": ("sim/base", "sim/node"),
    "network_models": ("sim/base", "sim/engine"),
    "scenarios": SIM + FLOOR_4,
    "tools": SIM + FLOOR_4 + ("scenarios",),
    "tests": SIM + FLOOR_4 + ("scenarios", "tools"),
}

# Headers of libraries, and the files (or folders) that alone may include them. Tests may include all of them, since
# they compare with the library itself. The first match decides; the last line is the standard library and POSIX.
OWNERS = (
    (r"fmt/", ("",)),
    (r"doctest/", ()),
    (r"boost/program_options", ("tools/",)),
    (r"boost/math/", ("tools/compare_settings.cpp",)),
    (r"boost/", ("sim/base/graph_file.cpp", "topology/connectivity.cpp", "topology/matchings.cpp", "network_models/switch_graph.cpp")),
    (r"hdf5", ("sim/base/hdf5.cpp", "sim/record/hdf5_file.cpp", "kernels/data/hdf5_dataset.cpp")),
    (r"zlib\.h$", ("kernels/data/idx_dataset.cpp",)),
    (r"mpi\.h$", ("sim/mpi/",)),
    (r"Random123/", ("sim/base/random.cpp",)),
    (r"simgrid/", ("tools/bench/compare_simgrid.cpp",)),
    (r"cu|nv", ("kernels/cuda/plugin.cu",)),
    (r"[a-z_0-9]+$|[a-z_0-9]+\.h$|sys/|netinet/|arpa/", ("",)),
)
# Libraries that a header would spread over the tree.
IN_SOURCES_ONLY = re.compile(r"boost/|hdf5|zlib\.h$|mpi\.h$|Random123/|cuda")

# Written by the build; who may include it.
GENERATED = {
    "starling_version.hpp": ("tools/",),
    "kernels/cuda/interface_version.hpp": ("kernels/cuda/", "tests/kernels/cuda/"),
}

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = (".hpp", ".cpp", ".cu", ".inc")


def folder_of(path):
    """The row of the table that a path belongs to, None if to none."""
    parts = path.split("/")
    candidates = ("/".join(parts[:2]), parts[0])
    return next((name for name in candidates if name in MAY_INCLUDE and len(parts) > 1), None)


def check_own(root, path, included):
    """What is wrong with `path` including our file `included`; None if nothing is."""
    if included in GENERATED:
        return None if path.startswith(GENERATED[included]) else f"belongs to {' and '.join(GENERATED[included])}"
    if ".." in included.split("/") or not (root / included).is_file():
        return "is no file, seen from the project's root"
    here, there = folder_of(path), folder_of(included)
    if there is None:
        return "lies in no folder of the include table"
    if here != there and there not in MAY_INCLUDE[here]:
        return f"{here} may include {', '.join(MAY_INCLUDE[here]) or 'nothing of ours'}, but not {there}"
    return None


def check_library(path, included):
    """What is wrong with `path` including a library's header; None if nothing is."""
    if path.startswith("tests/"):
        return None
    owners = next((owners for pattern, owners in OWNERS if re.match(pattern, included)), None)
    if owners is None:
        return "is a library that tools/check_includes.py does not know"
    if not any(path.startswith(owner) for owner in owners):
        return f"belongs to {' and '.join(owners) or 'tests/'}"
    if path.endswith(".hpp") and IN_SOURCES_ONLY.match(included):
        return "belongs into a .cpp file, not into a header"
    return None


def check_file(root, path):
    """Yields (line, message) for the violations in one file; `path` is relative to `root`."""
    text = (root / path).read_text()
    if path.endswith(".hpp") and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield 1, "a header needs #pragma once"
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, included = match.groups()
        message = check_own(root, path, included) if quote == '"' else check_library(path, included)
        if message:
            yield number, f"{included}: {message}"


def check_tree(root):
    """All violations below `root`, as lines."""
    root = pathlib.Path(root)
    paths = sorted(
        file.relative_to(root).as_posix()
        for top in {name.split("/")[0] for name in MAY_INCLUDE}
        for file in (root / top).rglob("*")
        if file.suffix in SUFFIXES and file.is_file())
    found = []
    for path in paths:
        if folder_of(path) is None:
            found.append(f"{path}:1: lies in no folder of the include table")
            continue
        found += [f"{path}:{line}: {message}" for line, message in check_file(root, path)]
    return found


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    violations = check_tree(root)
    print("\n".join(violations), end="\n" if violations else "")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
