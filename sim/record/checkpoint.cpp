#include "sim/record/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/core.h>
#include <sys/mman.h>

#include "sim/base/checksum.hpp"
#include "sim/base/error.hpp"
#include "sim/record/partial_file.hpp"
#include "sim/record/regular_file.hpp"

namespace starling {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view signature = "starling checkpoint\n";
constexpr std::uint32_t format_version = 1;
// Signature and version; sections begin at multiples of 8.
constexpr std::size_t preamble_bytes = 24;

struct Heading {
  std::array<char, 4> name;
  std::uint32_t zero;
  std::uint64_t bytes;
};
struct Ending {
  std::uint32_t checksum;
  std::uint32_t zero;
};
static_assert(sizeof(Heading) == 16 && sizeof(Ending) == 8);

constexpr std::size_t filled(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// One section of a file being written; its length is known before its content.
class SectionWriter {
 public:
  SectionWriter(PartialFile& file, std::string_view name, std::size_t bytes)
      : file_(file), left_(bytes) {
    Heading heading{{}, 0, bytes};
    std::copy(name.begin(), name.end(), heading.name.begin());
    pass({reinterpret_cast<const std::byte*>(&heading), sizeof heading});
  }

  void write(std::span<const std::byte> bytes) {
    ensure(bytes.size() <= left_, "a section of a checkpoint is as long as it said");
    left_ -= bytes.size();
    written_ += bytes.size();
    pass(bytes);
  }

  void finish() {
    ensure(left_ == 0, "a section of a checkpoint is as long as it said");
    constexpr std::array<std::byte, 8> zeros{};
    pass(std::span(zeros).first(filled(written_) - written_));
    const Ending ending{checksum_, 0};
    file_.write({reinterpret_cast<const std::byte*>(&ending), sizeof ending});
  }

 private:
  void pass(std::span<const std::byte> bytes) {
    checksum_ = crc32c(bytes, checksum_);
    file_.write(bytes);
  }

  PartialFile& file_;
  std::size_t left_;
  std::size_t written_ = 0;
  std::uint32_t checksum_ = 0;
};

template <class Items>
void write_section(PartialFile& file, std::string_view name, const Items& items) {
  const auto bytes = std::as_bytes(std::span(items));
  SectionWriter section(file, name, bytes.size());
  section.write(bytes);
  section.finish();
}

std::string joined(const std::map<std::string, std::string>& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    ensure((name + value).find('\0') == std::string::npos, "a fact of a checkpoint is plain text");
    text += name + '\0' + value + '\0';
  }
  return text;
}

/// The content of a section as items; less than one behind the last is left out.
template <class Item>
std::span<const Item> items_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Item*>(bytes.data()), bytes.size() / sizeof(Item)};
}

}  // namespace

void save(const Checkpoint& checkpoint, const FetchVector& fetch, const std::string& path,
          const std::function<void()>& make_way) {
  PartialFile file(path);
  file.write(std::as_bytes(std::span(signature)));
  file.write(std::as_bytes(std::span(&format_version, 1)));
  write_section(file, "FACT", joined(checkpoint.facts));
  write_section(file, "LEGS", checkpoint.legs);
  write_section(file, "COUN", checkpoint.counters);
  write_section(file, "JOUR", checkpoint.journal);
  write_section(file, "SCAL", checkpoint.numbers);
  write_section(file, "VECS", checkpoint.vectors);
  std::size_t floats = 0;
  for (const Checkpoint::Vector& vector : checkpoint.vectors) floats += vector.size;
  SectionWriter data(file, "DATA", floats * sizeof(float));
  std::vector<float> row;
  for (std::size_t i = 0; i < checkpoint.vectors.size(); ++i) {
    row.resize(checkpoint.vectors[i].size);
    fetch(i, row);
    data.write(std::as_bytes(std::span(row)));
  }
  data.finish();
  write_section(file, "DONE", std::span<const std::byte>());
  file.sync();
  if (make_way) make_way();
  file.finish();
}

CheckpointFile::CheckpointFile(const std::string& path) : path_(path) {
  map();
  try {
    read();
  } catch (...) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    throw;
  }
}

CheckpointFile::~CheckpointFile() {
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void CheckpointFile::map() {
  const RegularFile file(path_, "a checkpoint of Starling");
  const std::size_t size = file.size();
  if (size < preamble_bytes)
    throw Error(path_ + ": expected a checkpoint of Starling, found another file");
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (bytes == MAP_FAILED) file.fail(errno);
  bytes_ = {static_cast<const std::byte*>(bytes), size};
}

void CheckpointFile::fail(const std::string& words) const {
  throw Error(fmt::format("{}: damaged or cut short: {}", path_, words));
}

std::span<const std::byte> CheckpointFile::take(const char* name) {
  const auto rest = bytes_.subspan(at_);
  if (rest.size() < sizeof(Heading) + sizeof(Ending)) fail(fmt::format("no section {}", name));
  Heading heading;
  std::memcpy(&heading, rest.data(), sizeof heading);
  const std::size_t room = rest.size() - sizeof(Heading) - sizeof(Ending);
  if (std::memcmp(heading.name.data(), name, 4) != 0 || heading.bytes > room ||
      filled(heading.bytes) > room) {
    fail(fmt::format("section {} has no proper beginning", name));
  }
  const std::size_t length = sizeof(Heading) + filled(heading.bytes);
  Ending ending;
  std::memcpy(&ending, rest.data() + length, sizeof ending);
  if (ending.checksum != crc32c(rest.first(length)) || ending.zero != 0)
    fail(fmt::format("the checksum of section {} is wrong", name));
  at_ += length + sizeof(Ending);
  return rest.subspan(sizeof(Heading), heading.bytes);
}

void CheckpointFile::read() {
  if (std::memcmp(bytes_.data(), signature.data(), signature.size()) != 0)
    throw Error(path_ + ": expected a checkpoint of Starling, found another file");
  std::uint32_t version = 0;
  std::memcpy(&version, bytes_.data() + signature.size(), sizeof version);
  if (version > format_version) {
    throw Error(
        fmt::format("{}: written in format {} by a newer Starling; this one reads up to format {}",
                    path_, version, format_version));
  }
  at_ = preamble_bytes;

  const auto text = take("FACT");
  std::string_view rest(reinterpret_cast<const char*>(text.data()), text.size());
  const auto word = [&]() -> std::string {
    const std::size_t end = rest.find('\0');
    if (end == rest.npos) fail("the facts end within a word");
    std::string found(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    return found;
  };
  while (!rest.empty()) {
    const std::string name = word();
    content_.facts[name] = word();
  }
  const auto copy = [this]<class Item>(const char* name, std::vector<Item>& to) {
    const auto items = items_of<Item>(take(name));
    to.assign(items.begin(), items.end());
  };
  copy("LEGS", content_.legs);
  copy("COUN", content_.counters);
  content_.journal = items_of<double>(take("JOUR"));
  copy("SCAL", content_.numbers);
  copy("VECS", content_.vectors);
  data_ = items_of<float>(take("DATA"));
  if (!take("DONE").empty() || at_ != bytes_.size()) fail("it goes on behind its end");

  std::size_t floats = 0;
  for (const Checkpoint::Vector& vector : content_.vectors) {
    begins_.push_back(floats);
    floats += vector.size;
  }
  if (floats != data_.size()) fail("the vectors are not as long as their sizes say");
  if (content_.legs.size() < 2 || content_.legs.front().events != 0 ||
      !std::ranges::is_sorted(content_.legs, {}, &Checkpoint::Leg::events)) {
    fail("its place in the timeline is none");
  }
}

std::span<const float> CheckpointFile::vector(std::size_t index) const {
  return data_.subspan(begins_[index], content_.vectors[index].size);
}

}  // namespace starling
