#include "sim/mpi/message_header.hpp"

#include <cstring>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr std::uint32_t most_floats = std::numeric_limits<std::int32_t>::max();  // of a Vector
/// Of the models that a run may stand in for: 2^40 parameters of 4 bytes.
constexpr std::uint64_t most_filler = std::uint64_t{1} << 42;

}  // namespace

MessageHeader read_message_header(std::span<const std::byte> bytes, NodeId nodes) {
  if (bytes.size() != sizeof(MessageHeader)) {
    throw Error(fmt::format("a message from another rank: expected a header of {} bytes, found {}",
                            sizeof(MessageHeader), bytes.size()));
  }
  MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (const NodeId node : {header.source, header.destination}) {
    if (node < 0 || node >= nodes) {
      throw Error(fmt::format("a message from another rank: expected nodes from 0 to {}, found {}",
                              nodes - 1, node));
    }
  }
  if (header.size != MessageHeader::no_vector && header.size > most_floats) {
    throw Error(fmt::format("a message from another rank: expected at most {} numbers, found {}",
                            most_floats, header.size));
  }
  if (header.filler > most_filler) {
    throw Error(
        fmt::format("a message from another rank: expected at most {} bytes of filler, "
                    "found {}",
                    most_filler, header.filler));
  }
  return header;
}

}  // namespace starling
