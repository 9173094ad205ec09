// Any bytes as the header of a message from another rank, of a run whose number of nodes the first byte says.

#include "sim/mpi/message_header.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const NodeId nodes = 1 + data[0];
  test::allow_refusal([&] {
    const MessageHeader header =
        read_message_header(std::as_bytes(std::span(data + 1, size - 1)), nodes);
    ensure(header.source >= 0 && header.source < nodes, "a header names a sender that exists");
    ensure(header.destination >= 0 && header.destination < nodes, "and a receiver");
    ensure(header.size == MessageHeader::no_vector || header.size <= 0x7fff'ffff,
           "a vector is no longer than vectors can be");
  });
  return 0;
}
