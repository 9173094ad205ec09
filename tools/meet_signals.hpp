// Signals that ask the program to end.
#pragma once

#include <csignal>
#include <initializer_list>

namespace starling {

/// How `signals` are met from now on; those that are ignored, as nohup lets SIGHUP be, still are.
inline void meet_signals(std::initializer_list<int> signals, void (*how)(int)) {
  for (const int signal : signals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) std::signal(signal, how);
  }
}

}  // namespace starling
