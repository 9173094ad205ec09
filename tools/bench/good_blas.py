"""A BLAS that knows this processor, for comparisons with PyTorch and numpy."""
import os
import sys

OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-pthread"


def use_good_blas():
    """Starts this script anew with OpenBLAS, told which processor this is: Debian's does not know new ones and would
    fall back to kernels without AVX (OpenBLAS issue 4267)."""
    preload = f"{OPENBLAS}/libblas.so.3"
    if preload in os.environ.get("LD_PRELOAD", ""):
        return
    if not os.path.exists(preload):
        sys.exit(f"{os.path.basename(sys.argv[0])}: needs OpenBLAS (libopenblas0-pthread): with another BLAS the others would be slower "
                 "than they could be")
    with open("/proc/cpuinfo", encoding="ascii") as cpuinfo:
        flags = cpuinfo.read()
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX" if "avx512bw" in flags else "Haswell"
    os.environ["LD_PRELOAD"] = preload
    os.execv(sys.executable, [sys.executable, *sys.argv])


def without_blas():
    """The environment of a program that shall have its own libraries."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
