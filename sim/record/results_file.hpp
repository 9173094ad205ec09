// The results file: a Recorder as one HDF5 file, for this program, for plots and for anybody with
// h5py. It holds no date and nothing else that differs between equal runs except what /machine and
// /statistics say, so equal runs on one machine give files whose other parts are equal to the byte.
//
// The format: docs/results_format.md.
#pragma once

#include <string>

#include "sim/record/recorder.hpp"

namespace starling {

/// Writes `recorder` to `path`, making the directories above it. Whoever opens `path` at any moment, during the call
/// or after a crash in it, finds the old file or the new one, whole: the new one is written beside it
/// ("`path`.partial"), reaches the disk and then takes the name. While writing, memory holds the file once more.
/// Throws Error, "results/x.h5: cannot write: No space left on device"; the old file is untouched then.
void save(const Recorder& recorder, const std::string& path);
/// The same, but what another process saves there meanwhile is newer, and stays.
void save_between_times(const Recorder& recorder, const std::string& path);
/// Throws Error if save() would replace a file that is no results file, such as the scenario or its data.
void refuse_to_replace_others(const std::string& path);
/// Throws now what save() would throw if nothing can be written there, and if a file there is protected: to be asked before
/// work that cannot be repeated.
void expect_writable(const std::string& path);

/// Reads back all that save() wrote, to the bit. Throws Error if there is no file, it is no results
/// file, is cut short or damaged (as far as the checksums of HDF5's metadata and of compressed data
/// show), or is of a newer format.
Recorder load(const std::string& path);

}  // namespace starling
