#include "sim/node/request_queue.hpp"

namespace starling {

void RequestQueue::reset(std::span<const std::size_t> ends) {
  if (capacity_ < ends.size()) {
    strips_ = std::make_unique<Strip[]>(ends.size());
    capacity_ = ends.size();
  }
  count_ = ends.size();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    strips_[i].is_taken = false;
    strips_[i].next = begin;
    strips_[i].end = begin = ends[i];
  }
  is_stopped_ = false;
}

}  // namespace starling
