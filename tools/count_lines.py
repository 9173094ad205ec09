"""Which lines of the program ran, by the counters in a build folder; tools/coverage starts it, see there.

    count_lines.py BUILD         the share of lines per folder, and the files with most lines that did not run
    count_lines.py BUILD FILE    the lines of FILE, or of all files in folder FILE, that did not run
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("sim", "topology", "network_models", "kernels", "algorithms", "scenarios", "tools")

# Ends of functions, where what they hold is let go if they throw; types, for functions that the compiler adds.
NO_CODE = re.compile(r"[\s{}();]*|\s*(class|struct) .*{")


def read(build, notes):
    """(file, line, whether it ran) of all lines of ours in one object file."""
    # -r: no headers of the system. What a killed process wrote in part is like nothing written.
    done = subprocess.run(["gcov", "--json-format", "--stdout", "-r", str(notes)], cwd=build, capture_output=True, text=True)
    found = []
    for text in done.stdout.splitlines():
        for file in json.loads(text)["files"]:
            path = os.path.relpath(os.path.join(build, file["file"]), ROOT)
            if path.split("/")[0] in FOLDERS:
                found += [(path, line["line_number"], line["count"] != 0) for line in file["lines"]]
    return found


def lines_of(build):
    """file -> line -> whether it ran in any object file."""
    files = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for found in pool.map(lambda notes: read(build, notes), sorted(build.rglob("*.gcno"))):
            for path, line, has_run in found:
                files[path][line] = files[path].get(line, False) or has_run
    for path, lines in files.items():
        text = (ROOT / path).read_text().splitlines()
        files[path] = {line: has_run for line, has_run in lines.items() if not NO_CODE.fullmatch(text[line - 1])}
    return files


def show(files, wanted):
    for path in sorted(files):
        if wanted in (".", path) or path.startswith(wanted + "/"):
            text = (ROOT / path).read_text().splitlines()
            for line, has_run in sorted(files[path].items()):
                if not has_run:
                    print(f"{path}:{line}: {text[line - 1]}")


def summarize(files):
    folders = collections.Counter()
    reached = collections.Counter()
    for path, lines in files.items():
        parts = path.split("/")
        for name in ("/".join(parts[:2]) if parts[0] == "sim" else parts[0], "all"):
            folders[name] += len(lines)
            reached[name] += sum(lines.values())
    for name in sorted(folders, key=lambda name: (name == "all", name)):
        print(f"{name:16} {100 * reached[name] / folders[name]:5.1f} % of {folders[name]} lines")
    print("most lines that no test reached:")
    missed = sorted(((len(lines) - sum(lines.values()), path) for path, lines in files.items()), reverse=True)
    for count, path in missed[:25]:
        print(f"{count:6} of {len(files[path]):5}  {path}")


def main():
    files = lines_of(pathlib.Path(sys.argv[1]).resolve())
    if len(sys.argv) > 2:
        show(files, os.path.relpath(sys.argv[2], ROOT))
    else:
        summarize(files)


main()
