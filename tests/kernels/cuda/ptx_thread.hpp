// A thread that carries PTX out, and the memory that it reaches: every access must lie in memory that is there, aligned, and
// must not meet another thread's in the same phase (from barrier to barrier) or another block's in the same launch, unless
// both only read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/kernels/cuda/emulated_blocks.hpp"
#include "tests/kernels/cuda/ptx_program.hpp"

namespace starling::ptx {

using Address = std::uint64_t;

enum class Space { global, shared, local, arguments };
enum class Access { read, write, add };  // add: atomically

/// Who touched four bytes last. Phases are numbered through all launches.
struct Mark {
  std::uint64_t read_phase = 0, write_phase = 0;
  std::uint64_t other_reader = 0;  // phase of the last read by a block before the last reader's
  std::uint32_t reader = 0, writer = 0;
  bool is_awaited = false;  // by a queued copy
};

/// The marks of one memory.
class Marks {
 public:
  Mark& at(Address address) {
    const Address page = address / page_bytes;
    if (page != last_page_) {
      auto& marks = pages_[page];
      if (marks == nullptr) marks = std::make_unique<Page>();
      last_ = marks.get();
      last_page_ = page;
    }
    return (*last_)[address % page_bytes / 4];
  }

 private:
  static constexpr Address page_bytes = 4096;
  using Page = std::array<Mark, page_bytes / 4>;
  std::unordered_map<Address, std::unique_ptr<Page>> pages_;
  Address last_page_ = ~Address{0};
  Page* last_ = nullptr;
};

/// What a block's threads share.
struct Block {
  const std::vector<std::string>* files = nullptr;  // sources, for messages
  const Kernel* kernel = nullptr;
  const cuda::DeviceMemory* device_memory = nullptr;
  const unsigned char* arguments = nullptr;
  std::size_t argument_bytes = 0;
  std::vector<unsigned char> shared;
  Marks shared_marks, device_marks;
  std::uint64_t launch_phase = 0, block_phase = 0;  // the first ones
  std::uint64_t phase = 0;                          // this one
};

/// What a thread has done in a block, if that is counted (ptx_counts.hpp).
struct Log {
  struct Touch {
    std::uint32_t instruction;
    std::uint32_t bytes;
    bool is_shared;
    Address address;
  };
  bool is_on = false;
  std::vector<std::uint32_t> times;  // by instruction
  std::vector<Touch> touches;        // in order
};

struct CopyAhead {
  Address to, from;
  std::uint32_t bytes;
  bool is_there;  // else zeros are copied
};

struct Thread {
  enum class State { runs, meets, waits, has_ended };  // meets: at what a warp does together

  Block* block = nullptr;
  const Instruction* instruction = nullptr;  // the one that is carried out
  std::vector<std::uint64_t> registers;
  std::vector<unsigned char> local;
  std::uint32_t number = 0;
  std::uint32_t next = 0;  // instruction
  State state = State::runs;
  Log log;
  std::vector<CopyAhead> open_copies;         // not yet closed into a group
  std::deque<std::vector<CopyAhead>> copies;  // groups, the oldest first
  Address piece_begin = 1, piece_end = 0;     // of device memory, where the thread was last

  template <class T>
  T get(Register r) const {
    T value;
    std::memcpy(&value, &registers[r], sizeof value);
    return value;
  }
  template <class T>
  void set(Register r, T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    registers[r] = bits;
  }

  /// Ends the program, with the instruction's place in the source.
  [[noreturn]] void fail(const char* what) const;

  /// Where `bytes` bytes lie, after the checks above.
  unsigned char* reach(Space space, Address address, std::uint32_t bytes, Access access);

  void queue_copy(Address to, Address from, std::uint32_t bytes, bool is_there);
  /// Copies all closed groups but the last `count`.
  void await_copies(std::size_t count);
  /// Of a thread that has ended: fails if there are copies on their way.
  void end_copies();

 private:
  unsigned char* check(Space space, Address address, std::uint32_t bytes, Access access);
  void touch(Mark& mark, bool is_shared, Access access) const;
};

}  // namespace starling::ptx
