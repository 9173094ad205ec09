"""The program that a script runs: the option that names it, and what is said if it is not there."""
import os
import pathlib

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build"


def add_program(parser, name="tools/starling", what="the simulator"):
    """Adds --program, which names `what` to run; that of the build folder, if it is not given."""
    parser.add_argument("--program", default=str(BUILD / name), help=f"{what} to run (default: build/{name})")


def checked(parser, program):
    """`program`, if it can be run; ends the script otherwise."""
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        parser.error(f"{program} is no program; build it (README.md), or name one with --program")
    return program
