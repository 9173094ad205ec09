#include "sim/node/request_queue.hpp"

namespace starling {

void RequestQueue::reset(std::span<const std::size_t> ends) {
  if (capacity_ < ends.size()) {
    strips_ = std::make_unique<Strip[]>(ends.size());
    capacity_ = ends.size();
  }
  count_ = ends.size();
  std::size_t begin = 0;
  for (std::size_t b = 0; b < count_; ++b) {
    strips_[b].is_taken = false;
    strips_[b].next = begin;
    strips_[b].end = begin = ends[b];
  }
  is_stopped_ = false;
}

}  // namespace starling
