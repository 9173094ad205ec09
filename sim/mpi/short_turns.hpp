// Turns of threads on a processor that others want, too.
#pragma once

#include <cstdint>

#include <sys/syscall.h>
#include <unistd.h>

namespace starling {

/// This thread, and those that it starts, take turns of 0.1 ms in place of 3: with that, it is soon at work again after it has
/// stepped aside, or slept, where others compute. Nothing where the system does not know of turns (before Linux 6.12).
inline void take_short_turns() {
  struct {  // sched_attr of the system's first version; no header of the C library has it
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;  // nanoseconds
  } attributes{};
  constexpr std::uint32_t ordinary = 0;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
      attributes.policy != ordinary)
    return;
  attributes.runtime = 100'000;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace starling
