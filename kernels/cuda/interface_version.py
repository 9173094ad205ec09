#!/usr/bin/python3
"""interface_version.py VERSION.hpp [DEPENDENCIES]: writes the header that says which sources a GPU plug-in or a program
is made of.

The number is a digest of plugin.cu and all that it includes of this project. Whatever both sides must agree on (the table
of functions, the kernels, their arguments, the records that these point to) is among it."""
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = ROOT / "kernels/cuda/plugin.cu"
ITSELF = "kernels/cuda/interface_version.hpp"


def sources():
    """The plug-in's, in a fixed order."""
    found, coming = set(), [START]
    while coming:
        path = coming.pop()
        if path in found:
            continue
        found.add(path)
        included = re.findall(r'^ *# *include "(.+)"', path.read_text(), re.MULTILINE)
        coming += [ROOT / name for name in included if name != ITSELF]
    return sorted(found)


def main():
    header, *dependencies = sys.argv[1:]
    digest = hashlib.sha256()
    for path in sources():
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(text)}\n".encode() + text)
    pathlib.Path(header).write_text(f"""// The sources of the GPU plug-in (kernels/cuda/interface_version.py).
#pragma once

#include <cstdint>

namespace starling::cuda {{

inline constexpr std::uint32_t interface_version = 0x{digest.hexdigest()[:8]};

}}  // namespace starling::cuda
""")
    for file in dependencies:
        names = (str(path).replace(" ", "\\ ") for path in sources())
        pathlib.Path(file).write_text(f"{header}: {' '.join(names)}\n")


if __name__ == "__main__":
    main()
