"""What tools/plot and tools/report draw with."""
import os

import matplotlib

os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")  # before h5py is imported; files are never changed in place
matplotlib.use("Agg")  # pictures go to files; there may be no display
