// Faults of a program, which end it: tried out in a process of their own.
#pragma once

#include <csignal>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

namespace starling::test {

/// What ensure() says before it ends `act`, or that another signal did; empty if nothing ends it.
template <class Act>
std::string fault_of(const Act& act) {
  int channel[2];
  REQUIRE(pipe(channel) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(channel[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    act();
    _exit(0);
  }
  close(channel[1]);
  std::string message;
  char buffer[256];
  for (ssize_t count = 0; (count = read(channel[0], buffer, sizeof buffer)) > 0;) {
    message.append(buffer, static_cast<std::size_t>(count));
  }
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return "";
  return WTERMSIG(status) == SIGABRT ? message : fmt::format("signal {}", WTERMSIG(status));
}

}  // namespace starling::test
