// The program `starling`: finds the command and runs it. Exit status 0 if it did; failure.hpp has the others.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "starling_version.hpp"
#include "tools/commands.hpp"
#include "tools/failure.hpp"
#include "tools/passive_waiting.hpp"

namespace starling {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  void (*execute)(const Arguments&);
};

constexpr Command commands[] = {
    {"run", "execute a scenario, simulated or over MPI", run_command},
    {"resume", "go on with a simulation from its newest checkpoint", resume_command},
    {"sweep", "run a scenario for many settings, and tabulate the outcomes", sweep_command},
    {"calibrate", "measure this machine's network and gradients, under mpirun", calibrate_command},
    {"compare", "say whether two runs agree, or by how much two settings of a sweep differ",
     compare_command},
    {"report", "write a page about a run or a sweep: pictures, table, scenario", report_command},
    {"describe", "print a scenario with every default, and what can be said without running it",
     describe_command},
    {"list", "list all kinds of parts, and every key of a scenario", list_command},
    {"export", "write a results file as CSV or as a trace", export_command},
};

void print_help() {
  fmt::print(
      "starling simulates decentralized SGD at scale, and runs the same algorithms over MPI.\n\n"
      "usage: starling COMMAND [arguments]\n\ncommands:\n");
  for (const Command& command : commands) fmt::print("  {:<10}{}\n", command.name, command.summary);
  fmt::print(
      "\nExit status: 0 done; 1 it failed; 2 the command line or the scenario is wrong; 3 "
      "(compare) the runs\n"
      "differ; 128 + N ended by signal N.\n"
      "starling COMMAND --help tells more. starling --version prints {}.\n",
      STARLING_VERSION);
}

int execute(const Arguments& words) {
  if (words.empty()) {
    print_help();
    return 2;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help();
    return 0;
  }
  if (words[0] == "--version") {
    fmt::print("{}\n", STARLING_VERSION);
    return 0;
  }
  for (const Command& command : commands) {
    if (words[0] != command.name) continue;
    command.execute(Arguments(words.begin() + 1, words.end()));
    return 0;
  }
  throw UsageError(fmt::format("there is no command {}; starling --help lists them", words[0]));
}

Error unwritten(const std::string& why) {
  return Error(fmt::format("standard output: cannot write: {}", why));
}

}  // namespace

std::string_view summary_of(std::string_view command) {
  const auto* const found = std::ranges::find(commands, command, &Command::name);
  ensure(found != std::end(commands), "only commands have a summary");
  return found->summary;
}

}  // namespace starling

int main(int count, char** words) {
  using namespace starling;
  wait_passively(words);
  keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file past its limit is then told as a full disk is
  try {
    const int status = execute(Arguments(words + 1, words + count));
    if (std::fflush(stdout) != 0) throw unwritten(std::strerror(errno));
    return status;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return tell(std::current_exception());
    return tell(std::make_exception_ptr(unwritten(error.code().message())));  // fmt names no file
  } catch (...) {
    return tell(std::current_exception());
  }
}
