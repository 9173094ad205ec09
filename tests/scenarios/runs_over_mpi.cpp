// Runs over MPI, one after the other by the same processes: to start those takes longer than a small run.
//
//     mpirun -n N runs_over_mpi LIST
//
// LIST holds a line per run, its words separated by tabs: SCENARIO.ini section.key=value ... Says which of them have ended;
// the first that fails ends all.

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "scenarios/assemble.hpp"
#include "scenarios/run.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/text.hpp"
#include "sim/mpi/mpi_session.hpp"

namespace {

using namespace starling;

void run(MpiSession& session, const std::string& line) {
  const std::vector<std::string_view> words = split(line, '\t');
  const std::vector<std::string> settings(words.begin() + 1, words.end());
  Run one(assemble(Scenario::read(std::string(words[0]), settings), session.hosts()), {});
  one.execute(session);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  MpiSession session;
  try {
    std::ifstream list(argv[1]);
    for (std::string line; std::getline(list, line);) {
      run(session, line);
      if (session.rank() == 0) fmt::print("ended: {}\n", line);
      std::fflush(stdout);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.fail();
    return 1;
  }
}
