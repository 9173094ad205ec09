// A file that is written beside its place and takes it when it is whole: whoever opens the place at any moment, during
// the writing or after a crash in it, finds the old file or the new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace starling {

class PartialFile {
 public:
  /// Begins `path`.partial, or another one while another process writes that, making the directories above. A link is
  /// followed. Like the other members it throws Error, "results/x.h5: cannot write: No space left on device"; the old
  /// file is untouched then, and the partial one is removed.
  explicit PartialFile(const std::filesystem::path& path);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  void write(std::span<const std::byte> bytes);
  /// Waits until all of it is on the disk.
  void sync();
  /// Whether another process has replaced `path` since this was begun.
  bool is_overtaken() const;
  /// Syncs, then replaces `path` by it.
  void finish();

 private:
  std::filesystem::path named_;   // by the user
  std::filesystem::path target_;  // behind links
  std::filesystem::path partial_;
  std::uint64_t older_;  // number of the file that was there at the beginning
  int file_ = -1;
  bool is_synced_ = false;
  bool is_done_ = false;
};

/// Throws Error, "results/x.csv: is there already and no export; name another one (--output)", if a file at `path` holds
/// something that begins with none of `begins`, or cannot be read or written. `what`: "export".
void refuse_to_replace_others(const std::filesystem::path& path,
                              std::span<const std::string_view> begins, std::string_view what);

}  // namespace starling
