#include "tests/kernels/cuda/ptx_counts.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/core.h>

namespace starling::ptx {
namespace {

constexpr std::uint32_t banks = 32, word = 4, sector = 32;

/// What a warp's threads ask for by one instruction.
using Request = std::span<const Address>;

/// Threads of 8 bytes go by halves of a warp, of 16 by quarters; in each, a bank gives a word a cycle, to all that want it.
std::uint64_t shared_cycles(Request request, std::uint32_t bytes) {
  const std::size_t together = std::max<std::size_t>(warp * word / std::max(bytes, word), 1);
  std::uint64_t cycles = 0;
  for (std::size_t first = 0; first < request.size(); first += together) {
    std::set<Address> words;
    for (const Address at : request.subspan(first, std::min(together, request.size() - first))) {
      for (Address w = at / word; w < (at + bytes + word - 1) / word; ++w) words.insert(w);
    }
    std::array<std::uint64_t, banks> of_bank{};
    for (const Address w : words) ++of_bank[w % banks];
    cycles += *std::ranges::max_element(of_bank);
  }
  return cycles;
}

std::uint64_t device_bytes(Request request, std::uint32_t bytes) {
  std::set<Address> sectors;
  for (const Address at : request) {
    for (Address s = at / sector; s <= (at + bytes - 1) / sector; ++s) sectors.insert(s);
  }
  return sectors.size() * sector;
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  instructions += other.instructions;
  fused += other.fused;
  shared_requests += other.shared_requests;
  shared_cycles += other.shared_cycles;
  device_requests += other.device_requests;
  device_bytes += other.device_bytes;
  wanted_bytes += other.wanted_bytes;
  return *this;
}

void Counts::add(const Kernel& kernel, const std::vector<Thread>& threads) {
  ++blocks_;
  costs_.resize(kernel.code.size());
  // Instruction, is shared, how often before.
  using Place = std::tuple<std::uint32_t, bool, std::uint32_t>;
  struct Asked {
    std::vector<Address> by;
    std::uint32_t bytes = 0;
  };
  for (std::uint32_t first = 0; first < kernel.threads; first += warp) {
    std::vector<std::uint32_t> most(kernel.code.size());
    std::map<Place, Asked> requests;
    for (std::uint32_t t = first; t < std::min(first + warp, kernel.threads); ++t) {
      const Log& log = threads[t].log;
      for (std::size_t i = 0; i < most.size(); ++i) {
        most[i] = std::max(most[i], log.times[i]);
        if (kernel.code[i].is_fused) costs_[i].fused += log.times[i];
      }
      std::map<std::pair<std::uint32_t, bool>, std::uint32_t> before;
      for (const Log::Touch& touch : log.touches) {
        const std::uint32_t times = before[{touch.instruction, touch.is_shared}]++;
        Asked& asked = requests[{touch.instruction, touch.is_shared, times}];
        asked.by.push_back(touch.address);
        asked.bytes = touch.bytes;
      }
    }
    for (std::size_t i = 0; i < most.size(); ++i) costs_[i].instructions += most[i];
    for (const auto& [place, asked] : requests) {
      Cost& cost = costs_[get<0>(place)];
      if (get<1>(place)) {
        ++cost.shared_requests;
        cost.shared_cycles += shared_cycles(asked.by, asked.bytes);
      } else {
        ++cost.device_requests;
        cost.device_bytes += device_bytes(asked.by, asked.bytes);
        cost.wanted_bytes += asked.by.size() * asked.bytes;
      }
    }
  }
}

void Counts::print_head() {
  fmt::print(stderr, "{:>9} {:>13} {:>14} {:>12} {:>12} {:>12} {:>14} {:>14}  of\n", "blocks",
             "instructions", "multiply-adds", "shared", "its cycles", "device", "its bytes",
             "wanted");
}

void Counts::print(const Kernel& kernel, const std::vector<std::string>& files,
                   std::size_t lines) const {
  if (blocks_ == 0) return;
  const auto print_cost = [](const std::string& blocks, const Cost& c, const std::string& of) {
    fmt::print(stderr, "{:>9} {:13} {:14} {:12} {:12} {:12} {:14} {:14}  {}\n", blocks,
               c.instructions, c.fused, c.shared_requests, c.shared_cycles, c.device_requests,
               c.device_bytes, c.wanted_bytes, of);
  };
  Cost all;
  std::map<std::string, Cost> by_line;
  for (std::size_t i = 0; i < costs_.size(); ++i) {
    const Instruction& instruction = kernel.code[i];
    all += costs_[i];
    const std::string file = instruction.file < files.size() ? files[instruction.file] : "";
    by_line[fmt::format("  {}:{}", file, instruction.line)] += costs_[i];
  }
  const std::size_t begin = kernel.name.find("entry<");
  print_cost(std::to_string(blocks_), all,
             kernel.name.substr(begin, kernel.name.rfind('(') - begin));
  std::vector<std::pair<std::string, Cost>> dearest(by_line.begin(), by_line.end());
  std::ranges::sort(dearest, std::greater(),
                    [](const auto& line) { return line.second.instructions; });
  if (dearest.size() > lines) dearest.resize(lines);
  for (const auto& [line, cost] : dearest) print_cost("", cost, line);
}

}  // namespace starling::ptx
