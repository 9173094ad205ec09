#include "tests/kernels/cuda/ptx_thread.hpp"

#include <string>

#include <fmt/core.h>

namespace starling::ptx {
namespace {

// In place of a thread: several; those that add atomically.
constexpr std::uint32_t many = ~0U, adding = many - 1;

}  // namespace

void Thread::fail(const char* what) const {
  const Instruction& i = *instruction;
  const std::vector<std::string>& files = *block->files;
  const std::string file = i.file < files.size() ? files[i.file] : "?";
  cuda::give_up(
      fmt::format("{} (thread {}; {}:{} in {})", what, number, file, i.line, block->kernel->name)
          .c_str());
}

void Thread::touch(Mark& mark, bool is_shared, Access access) const {
  const Block& b = *block;
  // Other blocks have shared memory of their own.
  const std::uint64_t first = is_shared ? b.block_phase : b.launch_phase;
  const auto is_other_block = [&](std::uint64_t phase) {
    return phase >= first && phase < b.block_phase;
  };
  const std::uint32_t self = access == Access::add ? adding : number;
  if (mark.is_awaited && is_shared) fail("memory that a queued copy will write is touched");
  if (is_other_block(mark.write_phase) && (access != Access::add || mark.writer != adding))
    fail("touches what another block writes");
  if (mark.write_phase == b.phase && mark.writer != self)
    fail("touches what another thread writes in this phase");
  if (access != Access::read) {
    if (is_other_block(mark.read_phase) || is_other_block(mark.other_reader))
      fail("writes what another block reads");
    if (mark.read_phase == b.phase && mark.reader != self)
      fail("writes what another thread reads in this phase");
    mark.write_phase = b.phase;
    mark.writer = self;
    return;
  }
  if (is_other_block(mark.read_phase)) mark.other_reader = mark.read_phase;
  mark.reader = mark.read_phase == b.phase && mark.reader != self ? many : self;
  mark.read_phase = b.phase;
}

unsigned char* Thread::reach(Space space, Address address, std::uint32_t bytes, Access access) {
  if (log.is_on && (space == Space::global || space == Space::shared))
    log.touches.push_back({next - 1, bytes, space == Space::shared, address});
  return check(space, address, bytes, access);
}

unsigned char* Thread::check(Space space, Address address, std::uint32_t bytes, Access access) {
  if (address % bytes != 0) fail("an address is not aligned");
  const auto within = [&](const unsigned char* memory, std::size_t size) {
    if (address < first_address || address - first_address + bytes > size)
      fail(space == Space::shared  ? "reaches beyond shared memory"
           : space == Space::local ? "reaches beyond local memory"
                                   : "reaches beyond the arguments");
    return const_cast<unsigned char*>(memory) + (address - first_address);
  };
  if (space == Space::arguments) return within(block->arguments, block->argument_bytes);
  if (space == Space::local) return within(local.data(), local.size());
  unsigned char* place = nullptr;
  if (space == Space::shared) {
    place = within(block->shared.data(), block->shared.size());
  } else {
    place = reinterpret_cast<unsigned char*>(address);
    if (address < piece_begin || address + bytes > piece_end) {
      auto piece = block->device_memory->upper_bound(place);
      if (piece != block->device_memory->begin()) {
        --piece;
        piece_begin = reinterpret_cast<Address>(piece->first);
        piece_end = piece_begin + piece->second;
      }
      if (address < piece_begin || address + bytes > piece_end)
        fail("reaches beyond device memory");
    }
  }
  Marks& marks = space == Space::shared ? block->shared_marks : block->device_marks;
  for (Address at = address; at < address + bytes; at += 4)
    touch(marks.at(at), space == Space::shared, access);
  return place;
}

void Thread::queue_copy(Address to, Address from, std::uint32_t bytes, bool is_there) {
  if (is_there) reach(Space::global, from, bytes, Access::read);
  reach(Space::shared, to, bytes, Access::write);
  for (Address at = to; at < to + bytes; at += 4) block->shared_marks.at(at).is_awaited = true;
  open_copies.push_back({to, from, bytes, is_there});
}

void Thread::await_copies(std::size_t count) {
  for (; copies.size() > count; copies.pop_front()) {
    for (const CopyAhead& copy : copies.front()) {
      for (Address at = copy.to; at < copy.to + copy.bytes; at += 4)
        block->shared_marks.at(at).is_awaited = false;
      auto* to = check(Space::shared, copy.to, copy.bytes, Access::write);
      if (copy.is_there) {
        std::memcpy(to, check(Space::global, copy.from, copy.bytes, Access::read), copy.bytes);
      } else {
        std::memset(to, 0, copy.bytes);
      }
    }
  }
}

void Thread::end_copies() {
  bool is_over = open_copies.empty();
  for (const std::vector<CopyAhead>& group : copies) is_over = is_over && group.empty();
  if (!is_over) fail("ends with copies to shared memory on their way");
  copies.clear();
}

}  // namespace starling::ptx
