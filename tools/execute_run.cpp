#include "tools/execute_run.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "scenarios/memory.hpp"
#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/results_file.hpp"
#include "starling_version.hpp"
#include "tools/meet_signals.hpp"
#include "tools/progress.hpp"
#include "tools/reference_run.hpp"
#include "tools/say.hpp"
#include "tools/summary.hpp"

namespace starling {
namespace {

// Written by a handler on whatever thread the signal comes to, and read by others.
std::atomic<int> asked_to_end = 0;
std::array<std::atomic<std::int64_t>, NSIG> first_asked{};  // milliseconds, by signal; 0: not yet
static_assert(std::atomic<int>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler uses them");

/// A second one ends the program at once, unless it comes with the first: timeout(1) tells a process and then its whole
/// group, and a sweep that was told tells its points. That of a limit on processor time comes every second up to the hard limit.
extern "C" void note_signal(int signal) {
  constexpr std::int64_t together = 500;  // milliseconds
  asked_to_end = signal;
  if (signal == SIGXCPU) return;
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  const std::int64_t now = std::int64_t{clock.tv_sec} * 1000 + clock.tv_nsec / 1'000'000;
  std::int64_t first = 0;
  const bool is_first =
      first_asked[static_cast<std::size_t>(signal)].compare_exchange_strong(first, now);
  if (is_first || now - first < together) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Whether the models take so much memory that one wants to know.
bool is_large(const Assembly& parts) {
  const WorkloadFacts& facts = parts.workload->facts();
  return facts.has_numbers && model_bytes(parts.settings, facts) > (1 << 30);
}

/// `path` as a word of a command that one may copy into a shell.
std::string as_word(const std::string& path) {
  const bool is_plain = std::ranges::all_of(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("/._-+,=:@%", c) != nullptr;
  });
  if (is_plain) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

void report(const Run& run) {
  fmt::print("{}\n{}", run.recorder().facts.at("workload"), summarize(run.recorder()));
  const std::string replay = fact(run.recorder().facts, "replay");
  if (!replay.empty()) fmt::print("  {:<36}{}\n", "replay", replay);
  if (is_large(run.assembly())) {
    fmt::print("  {:<36}{:.2f} GiB at most\n", "memory",
               static_cast<double>(peak_memory()) / (1 << 30));
  }
  if (run.lost_checkpoints() > 0)
    fmt::print("  {:<36}{}\n", "checkpoints not written", run.lost_checkpoints());
  fmt::print("  {:<36}{}\n", "results", run.assembly().settings.output);
  if (run.checkpoint().empty()) return;
  fmt::print("  {:<36}starling resume {}\n", "to go on", as_word(run.assembly().settings.output));
}

/// Shows where a run is.
class Heartbeat {
 public:
  void show(const Standing& standing) {
    const double share = std::max(static_cast<double>(standing.steps) / standing.all_steps,
                                  to_seconds(standing.now) / to_seconds(standing.until));
    if (standing.is_replaying) {
      was_replaying_ = true;
      return progress_.show(share, "replaying the timeline up to the checkpoint");
    }
    if (std::exchange(was_replaying_, false)) progress_.begin_at(share);
    const auto steps_here = static_cast<double>(standing.steps - standing.steps_before);
    const double rate = steps_here * standing.samples_per_step / progress_.seconds();
    progress_.show(share,
                   fmt::format("{} time {:.4g} s", standing.is_real ? "wall" : "virtual",
                               to_seconds(standing.now)),
                   fmt::format("{} of {:.0f} steps{}, {:.3g} samples/s, {:.0f} MiB", standing.steps,
                               standing.all_steps, standing.is_real ? " of this rank" : "",
                               rate / standing.share_here,
                               static_cast<double>(resident_memory()) / (1 << 20)));
  }
  void clear() { progress_.clear(); }

 private:
  Progress progress_;
  bool was_replaying_ = false;
};

}  // namespace

void warn_of_settings(const Assembly& parts) {
  for (const std::string& warning : parts.warnings) say("starling: warning: {}\n", warning);
  for (const std::string& warning :
       {parts.unread_topology_warning, parts.unread_forward_share_warning}) {
    if (!warning.empty()) say("starling: warning: {}\n", warning);
  }
  warn_of_reference(parts);
}

void execute_run(Assembly parts, Voice voice, const std::function<void(Run&)>& how) {
  const bool speaks = voice == Voice::all;
  const bool warns = voice != Voice::silent;
  meet_signals({SIGINT, SIGTERM, SIGHUP, SIGXCPU}, note_signal);
  Heartbeat heartbeat;
  Run::Hooks hooks;
  if (speaks) {
    hooks.progress = [&](const Standing& standing) {
      try {
        heartbeat.show(standing);
      } catch (const std::exception&) {  // no run ends because it cannot be shown
      }
    };
  }
  hooks.interruption = [] { return asked_to_end.load(); };
  hooks.warn = [&](const std::string& words) {
    heartbeat.clear();
    say("starling: warning: {}\n", words);
  };
  hooks.code_version = STARLING_VERSION;
  if (speaks && is_large(parts)) {
    fmt::print("memory: {}\n", describe_memory(parts.settings, parts.workload->facts()));
    std::fflush(stdout);
  }
  if (warns) warn_of_settings(parts);
  Run run(std::move(parts), std::move(hooks));
  try {
    how(run);
  } catch (const Interrupted&) {
    heartbeat.clear();
    if (speaks) {
      report(run);
    } else if (!run.checkpoint().empty()) {
      say("starling resume {} goes on\n", as_word(run.assembly().settings.output));
    }
    throw;
  } catch (...) {
    heartbeat.clear();
    throw;
  }
  heartbeat.clear();
  if (!warns) return;
  for (const std::string& warning : run.closing_warnings()) say("starling: warning: {}\n", warning);
  const std::size_t parameters = run.assembly().workload->facts().parameters;
  for (const std::string& sign : signs_of_divergence(run.recorder(), parameters))
    say("starling: warning: {}\n", sign);
  if (speaks) report(run);
}

}  // namespace starling
