// The table of routes.

#include "network_models/links.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

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

}  // namespace

std::string host_link_name(LinkId link) {
  return fmt::format("host {} {}", link / 2, link % 2 == 0 ? "up" : "down");
}

// ----- Routes

Routes::Routes(Fabric fabric) : fabric_(std::move(fabric)), slots_(1024, {no_pair, 0}) {}

Routes::Slot& Routes::slot_of(std::uint64_t pair) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> 32) & mask;
  while (slots_[i].pair != pair && slots_[i].pair != no_pair) i = (i + 1) & mask;
  return slots_[i];
}

void Routes::grow() {
  std::vector<Slot> old(2 * slots_.size(), {no_pair, 0});
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
    route.latency += fabric_.links[link].latency;
    route.bytes_per_second = std::min(route.bytes_per_second, fabric_.links[link].bytes_per_second);
  }
  routes_.push_back(route);
  const auto number = static_cast<std::uint32_t>(routes_.size() - 1);
  if (2 * routes_.size() > slots_.size()) grow();
  slot_of(pair) = {pair, number};
  return number;
}

}  // namespace starling::network_models
