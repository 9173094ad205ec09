// Stands before the C library (LD_PRELOAD) in tests of whole programs: ranks that seem to live on several hosts, and a
// disk that takes its time.
//
//   STARLING_TEST_HOSTS=011    rank 0 lives on host0, ranks 1 and 2 on host1
//   STARLING_TEST_RENAME=7     the first results file of a process takes 7 s to get into its place

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <time.h>

extern "C" int gethostname(char* name, std::size_t size) {
  const char* const hosts = std::getenv("STARLING_TEST_HOSTS");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  char host[] = "host0";
  if (hosts != nullptr && rank != nullptr) host[4] = hosts[std::atoi(rank)];
  std::strncpy(name, host, size);
  return 0;
}

extern "C" int rename(const char* from, const char* to) {
  using Rename = int (*)(const char*, const char*);
  static const auto real = reinterpret_cast<Rename>(dlsym(RTLD_NEXT, "rename"));
  static bool is_first = true;
  const char* const seconds = std::getenv("STARLING_TEST_RENAME");
  if (seconds != nullptr && std::string_view(to).ends_with(".h5") && is_first) {
    is_first = false;
    timespec left{.tv_sec = std::atoi(seconds), .tv_nsec = 0};
    while (nanosleep(&left, &left) != 0) {
    }
  }
  return real(from, to);
}
