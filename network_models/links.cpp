// The table of routes.

#include "network_models/links.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <fmt/core.h>

#include "network_models/clock_range.hpp"
#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace starling::network_models {

Duration parse_latency(std::string_view text) {
  const Duration latency = parse_duration(text);
  if (latency > longest_latency) {
    throw std::invalid_argument(
        fmt::format("must be at most {}, got {}", to_text(longest_latency), text));
  }
  return latency;
}

namespace {

constexpr std::uint64_t no_pair = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t per_line = 4;  // slots

}  // namespace

std::string host_link_name(LinkId link) {
  return fmt::format("host {} {}", link / 2, link % 2 == 0 ? "up" : "down");
}

// ----- Routes

Routes::Routes(Fabric fabric) : fabric_(std::move(fabric)), slots_(1024, {no_pair, 0}) {}

// The first pairs of a source lie on a cache line of its own, so that nodes that send in order find theirs in order; the others
// anywhere (double hashing: those lines are a long full stretch, which steps of one would walk along).
Routes::Slot& Routes::slot_of(std::uint64_t pair) {
  const std::size_t mask = slots_.size() - 1;
  Slot* const line = &slots_[(pair >> 32) * per_line & mask];
  for (std::size_t j = 0; j < per_line; ++j) {
    if (line[j].pair == pair || line[j].pair == no_pair) return line[j];
  }
  const std::uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  const std::size_t step = hash >> 48 | 1;
  std::size_t i = hash >> 32 & mask;
  while (slots_[i].pair != pair && slots_[i].pair != no_pair) i = (i + step) & mask;
  return slots_[i];
}

void Routes::grow() {
  decltype(slots_) old(2 * slots_.size(), {no_pair, 0});
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.pair != no_pair) slot_of(slot.pair) = slot;
  }
}

std::span<const LinkId> Routes::keep(const std::vector<LinkId>& links) {
  if (arena_.empty() || arena_.back().capacity() - arena_.back().size() < links.size()) {
    arena_.emplace_back();
    arena_.back().reserve(std::max(block_size, links.size()));
  }
  std::vector<LinkId>& block = arena_.back();
  const std::size_t first = block.size();
  block.insert(block.end(), links.begin(), links.end());
  return std::span<const LinkId>(block).subspan(first);
}

std::uint32_t Routes::find(NodeId source, NodeId destination) {
  const auto pair =
      static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
  const Slot& known = slot_of(pair);
  if (known.pair == pair) [[likely]]
    return known.number;

  scratch_.clear();
  fabric_.route(source, destination, scratch_);
  ensure(!scratch_.empty(), "a route crosses a link");
  Route route{.links = keep(scratch_), .latency = {}, .bytes_per_second = MaxMin::unbounded};
  for (const LinkId link : route.links) {
    route.latency = sum(route.latency, fabric_.links[link].latency);
    route.bytes_per_second = std::min(route.bytes_per_second, fabric_.links[link].bytes_per_second);
  }
  routes_.push_back(route);
  const auto number = static_cast<std::uint32_t>(routes_.size() - 1);
  if (2 * routes_.size() > slots_.size()) grow();
  slot_of(pair) = {pair, number};
  return number;
}

}  // namespace starling::network_models
