// Free memory is what the machine has, or less where control groups allow less.

#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "sim/base/memory.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_memory {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

/// A root folder with files of the kernel in it.
class Root {
 public:
  Root() { write("proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:   2097152 kB\n"); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(name)).parent_path());
    folder_.write(name, text);
  }
  /// What a group may take, and has taken, by the names of version 2 and of version 1.
  void allow_by_2(const std::string& group, const std::string& limit, const std::string& used) {
    write("sys/fs/cgroup/" + group + "memory.max", limit + "\n");
    write("sys/fs/cgroup/" + group + "memory.current", used + "\n");
  }
  void allow_by_1(const std::string& group, const std::string& limit, const std::string& used) {
    write("sys/fs/cgroup/memory/" + group + "memory.limit_in_bytes", limit + "\n");
    write("sys/fs/cgroup/memory/" + group + "memory.usage_in_bytes", used + "\n");
  }
  std::optional<std::int64_t> available() const { return available_memory(folder_.path("")); }

 private:
  test::TemporaryDirectory folder_;
};

TEST_CASE("without control groups: what the machine has") {
  Root root;
  CHECK(root.available() == 2048 * mebibyte);
  root.write("proc/self/cgroup", "0::/\n");
  CHECK(root.available() == 2048 * mebibyte);
  root.write("proc/meminfo", "");
  CHECK_FALSE(root.available());  // nobody tells
}

TEST_CASE("version 2: the tightest of the groups that this process is in") {
  Root root;
  root.write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  root.allow_by_2("slurm/", "max", "123");
  CHECK(root.available() == 2048 * mebibyte);
  root.allow_by_2("slurm/job_7/", "1073741824", "268435456");
  CHECK(root.available() == 768 * mebibyte);
  root.allow_by_2("slurm/job_7/step_0/", "536870912", "268435456");
  CHECK(root.available() == 256 * mebibyte);
  // Files that it has read are given up for what it needs.
  root.write("sys/fs/cgroup/slurm/job_7/step_0/memory.stat",
             "anon 5\nfile 9\ninactive_file 4194304\nactive_file 2097152\n");
  CHECK(root.available() == 262 * mebibyte);
  root.write("sys/fs/cgroup/slurm/job_7/step_0/memory.current", "999999999999\n");
  CHECK(root.available() == 0);
}

TEST_CASE("a container sees its own group as the root") {
  Root root;
  root.write("proc/self/cgroup", "0::/\n");
  root.allow_by_2("", "1073741824", "0");
  CHECK(root.available() == 1024 * mebibyte);
}

TEST_CASE("version 1: the group of the memory controller") {
  Root root;
  root.write("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/b\n0::/\n");
  root.allow_by_1("", "9223372036854771712", "77777");
  root.write("sys/fs/cgroup/memory/memory.stat", "total_active_file 99999\n");  // counted later
  root.allow_by_1("a/", "1", "1");
  CHECK(root.available() == 2048 * mebibyte);
  root.allow_by_1("b/", "1073741824", "536870912");
  root.write("sys/fs/cgroup/memory/b/memory.stat",
             "inactive_file 5\ntotal_inactive_file 1048576\n");
  CHECK(root.available() == 513 * mebibyte);
}

TEST_CASE("a machine has some memory") { CHECK(available_memory().value() > 0); }

}  // namespace
}  // namespace starling::test_memory
