#include "tools/process_pool.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(5);

/// In the new process: becomes `words`, with a lock on its log until it ends; 127 if it cannot.
[[noreturn]] void become(char* const* words, const char* log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it went while we came
  const int file = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) _exit(ProcessPool::taken);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file < 0 || ftruncate(file, 0) != 0 || nothing < 0 || dup2(nothing, 0) < 0 ||
      dup2(file, 1) < 0 || dup2(file, 2) < 0)
    _exit(127);
  execv(words[0], words);
  dprintf(STDERR_FILENO, "cannot start %s: %s\n", words[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

bool ProcessPool::start(const Task& task, std::size_t index) {
  std::vector<char*> words;
  for (const std::string& word : task.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0 && running_.empty())
    throw Error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child < 0) return false;
  if (child == 0) {
    for (const char* name : kept_back_) unsetenv(name);
    become(words.data(), task.log.c_str(), self);
  }
  running_[child] = index;
  return true;
}

void ProcessPool::collect(bool waits, const Ended& ended) {
  for (auto it = running_.begin(); it != running_.end();) {
    int status = 0;
    const pid_t child = waitpid(it->first, &status, waits ? 0 : WNOHANG);
    if (child == 0 || (child < 0 && errno == EINTR)) {
      ++it;
      continue;
    }
    if (child < 0) status = 127 << 8;  // nobody knows how it ended
    ended(it->second, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    it = running_.erase(it);
  }
}

bool ProcessPool::run(const std::vector<Task>& tasks, const Ended& ended,
                      const std::function<bool()>& pulse, const std::function<bool()>& goes_on) {
  std::signal(SIGCHLD, SIG_DFL);  // who was started with it ignored would learn no status of a task
  std::size_t next = 0;
  std::size_t end = tasks.size();
  while (next < end || !running_.empty()) {
    while (next < end && running_.size() < at_once_) {
      if (!goes_on()) {
        end = next;
      } else if (!start(tasks[next], next)) {
        break;
      } else {
        ++next;
      }
    }
    std::this_thread::sleep_for(between_looks);
    collect(false, ended);
    if (!pulse()) continue;
    for (const auto& [child, task] : running_) kill(child, SIGTERM);
    while (!running_.empty()) collect(true, ended);
    return false;
  }
  return true;
}

}  // namespace starling
