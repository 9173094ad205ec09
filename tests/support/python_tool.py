"""tools/plot and tools/report, called in the test's own process: matplotlib takes longer to start than to draw."""
import contextlib
import functools
import io
import os
import pathlib
import runpy
import unittest.mock

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
import matplotlib.pyplot as plt


@functools.cache
def main_of(name):
    return runpy.run_path(str(TOOLS / name), run_name=name)["main"]


def call(name, words, folder):
    """Exit status, and what it printed, of a tool with such words, called in `folder`."""
    said = io.BytesIO()
    output = io.TextIOWrapper(said, encoding="utf-8", write_through=True)
    errors = io.TextIOWrapper(said, encoding="utf-8", errors="backslashreplace", write_through=True)
    here, status = os.getcwd(), 0
    os.chdir(folder)
    try:
        with unittest.mock.patch("sys.argv", [name, *map(str, words)]), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main_of(name)()
    except SystemExit as end:
        status = end.code or 0
        if isinstance(status, str):
            print(status, file=errors)
            status = 1
    finally:
        os.chdir(here)
        plt.close("all")
    return status, said.getvalue().decode()
