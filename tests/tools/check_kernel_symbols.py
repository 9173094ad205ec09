#!/usr/bin/python3
"""The builds of the dense kernels for newer instruction sets share no function with the rest of the program.

    check_kernel_symbols.py LIBRARY ...

An inline function that such a build emits as a weak symbol could be the copy that the linker keeps for everybody, and
then crash on a processor without the instructions. So each of these libraries defines no weak function.
"""
import subprocess
import sys


def main():
    weak = []
    for library in sys.argv[1:]:
        listing = subprocess.run(["nm", "--demangle", "--defined-only", library], capture_output=True, text=True, check=True)
        symbols = [line.split(maxsplit=2)[1:] for line in listing.stdout.splitlines() if len(line.split(maxsplit=2)) == 3]
        if not any(kind == "T" for kind, _ in symbols):
            sys.exit(f"{library}: found no function")
        weak += [f"{library}: {name}" for kind, name in symbols if kind in "WVu"]
    print("\n".join(weak) or "no weak symbols")
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
