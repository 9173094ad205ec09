// Wish: what one of the processes that share a simulation wants all to do at the next place where they can agree.
#pragma once

namespace starling {

struct Wish {
  bool checkpoint = false;
  int signal = 0;  // that asks the run to end, or 0
  friend bool operator==(const Wish&, const Wish&) = default;
};

}  // namespace starling
