// Stands before the C and C++ libraries (LD_PRELOAD) in tests of whole programs: ranks that seem to live on several hosts, a
// disk that takes its time, too many processes, and too little memory.
//
//   STARLING_TEST_HOSTS=011      rank 0 lives on host0, ranks 1 and 2 on host1
//   STARLING_TEST_SYNC=7         the first file that a process writes takes 7 s to get to the disk
//   STARLING_TEST_FORK=2         the second process that a process wants to start cannot be started
//   STARLING_TEST_MEMORY=1:1000  rank 1 has no memory (operator new) for blocks of 1000 bytes and more, and after SIGUSR1 none at
//                                all until it has given some MiB back

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include <dlfcn.h>
#include <sys/types.h>
#include <time.h>

extern "C" int gethostname(char* name, std::size_t size) {
  const char* const hosts = std::getenv("STARLING_TEST_HOSTS");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  char host[] = "host0";
  if (hosts != nullptr && rank != nullptr) host[4] = hosts[std::atoi(rank)];
  std::strncpy(name, host, size);
  return 0;
}

extern "C" int fsync(int file) {
  using Fsync = int (*)(int);
  static const auto real = reinterpret_cast<Fsync>(dlsym(RTLD_NEXT, "fsync"));
  static bool is_first = true;
  const char* const seconds = std::getenv("STARLING_TEST_SYNC");
  if (seconds != nullptr && is_first) {
    is_first = false;
    timespec left{.tv_sec = std::atoi(seconds), .tv_nsec = 0};
    while (nanosleep(&left, &left) != 0) {
    }
  }
  return real(file);
}

extern "C" pid_t fork() {
  using Fork = pid_t (*)();
  static const auto real = reinterpret_cast<Fork>(dlsym(RTLD_NEXT, "fork"));
  static int count = 0;
  const char* const failing = std::getenv("STARLING_TEST_FORK");
  if (failing == nullptr || ++count != std::atoi(failing)) return real();
  errno = EAGAIN;
  return -1;
}

namespace {

constexpr std::size_t reserve_bytes = std::size_t{32} << 20;  // at least; that of a run
constexpr std::size_t any = std::numeric_limits<std::size_t>::max();

volatile std::sig_atomic_t is_all_gone = 0;

/// Blocks of so many bytes are too large here.
std::size_t too_large() {
  const char* const scarce = std::getenv("STARLING_TEST_MEMORY");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (scarce == nullptr || rank == nullptr || std::atoi(scarce) != std::atoi(rank)) return any;
  return static_cast<std::size_t>(std::atoll(std::strchr(scarce, ':') + 1));
}

[[gnu::constructor]] void listen() {
  if (too_large() != any) std::signal(SIGUSR1, [](int) { is_all_gone = 1; });
}

}  // namespace

void* operator new(std::size_t size) {
  using New = void* (*)(std::size_t);
  static const auto real = reinterpret_cast<New>(dlsym(RTLD_NEXT, "_Znwm"));
  static const std::size_t limit = too_large();
  // Short vectors always find some: in one of them destructors note what they free, and must not throw.
  const bool is_short_vector = size <= 256 && std::has_single_bit(size);
  if ((is_all_gone && !is_short_vector) || size >= limit) throw std::bad_alloc();
  return real(size);
}

extern "C" int munmap(void* address, std::size_t size) noexcept {
  using Munmap = int (*)(void*, std::size_t);
  static const auto real = reinterpret_cast<Munmap>(dlsym(RTLD_NEXT, "munmap"));
  if (size >= reserve_bytes) is_all_gone = 0;
  return real(address, size);
}
