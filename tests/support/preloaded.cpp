// Stands before the C library (LD_PRELOAD) in tests of whole programs: ranks that seem to live on several hosts, a
// disk that takes its time, and too many processes.
//
//   STARLING_TEST_HOSTS=011    rank 0 lives on host0, ranks 1 and 2 on host1
//   STARLING_TEST_SYNC=7       the first file that a process writes takes 7 s to get to the disk
//   STARLING_TEST_FORK=2       the second process that a process wants to start cannot be started

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

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
