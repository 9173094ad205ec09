"""What tools/plot and tools/report draw with.

A module per picture puts it together: `run`, `links`, `convergence` (several runs), `sweep`. Its panels are in run_*.py and sweep_*.py;
what is drawn comes from `results`, `runs`, `sweep_tables` and `published`.
"""
import os

import matplotlib

os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")  # before h5py is imported; files are never changed in place
matplotlib.use("Agg")  # pictures go to files; there may be no display
