"""A BLAS that knows this processor, for comparisons with PyTorch and numpy."""
import os
import sys

OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-pthread"


def use_good_blas():
    """Starts this script anew with OpenBLAS, told which processor this is: Debian's does not know new ones and would
    fall back to kernels without AVX (OpenBLAS issue 4267)."""
    if "OPENBLAS_CORETYPE" in os.environ:
        return
    with open("/proc/cpuinfo", encoding="ascii") as cpuinfo:
        flags = cpuinfo.read()
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX" if "avx512bw" in flags else "Haswell"
    if os.path.exists(f"{OPENBLAS}/libblas.so.3"):
        os.environ["LD_PRELOAD"] = f"{OPENBLAS}/libblas.so.3"
    else:
        print("no OpenBLAS (libopenblas0-pthread): the others are slower than they could be")
    os.execv(sys.executable, [sys.executable, *sys.argv])


def without_blas():
    """The environment of a program that shall have its own libraries."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
