// starling report: becomes tools/report, which writes a page about a run or a sweep.

#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/base/shipped_file.hpp"
#include "tools/commands.hpp"

namespace starling {

void report_command(const Arguments& arguments) {
  std::vector<std::string> words = {shipped_tool("report")};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  throw Error(fmt::format("{}: cannot start: {}", words[0], std::strerror(errno)));
}

}  // namespace starling
