// Checks the coroutine type: when bodies run, what awaiters get, where exceptions go, that frames
// are freed, and that long chains and loops use no stack. A task is driven here by resuming its
// handle, as a transport does.
#include <coroutine>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/task.hpp"

namespace starling::test_task {
namespace {

// Symmetric transfer costs no stack only where GCC makes tail calls: with -foptimize-sibling-calls
// (part of -O2) and without the address sanitizer. Elsewhere each await that completes at once
// nests deeper until the next real suspension, so there the loops are short and their stack is not
// checked. -O1 alone shows no macro of its own.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool has_tail_calls = true;
#else
constexpr bool has_tail_calls = false;
#endif

/// A place to wait until the test goes on; stands for a receive.
struct Gate {
  std::coroutine_handle<> waiting;

  struct Awaiter {
    Gate* gate;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { gate->waiting = handle; }
    void await_resume() const {}
  };
  Awaiter wait() { return Awaiter{this}; }
  void open() { std::exchange(waiting, nullptr).resume(); }
};

/// Writes its name when it is destroyed.
struct Witness {
  std::string* log;
  char name;
  ~Witness() { *log += name; }
};

Task<int> number(int value) { co_return value; }

Task<void> append(std::string& log, char letter) {
  log += letter;
  co_return;
}

Task<void> fail() {
  throw std::runtime_error("lost");
  co_return;
}

template <class T>
void start(const Task<T>& task) {
  task.handle().resume();
}

TEST_CASE("a task does nothing before it is started and ends once") {
  std::string log;
  const Task<void> task = append(log, 'a');
  CHECK(log == "");
  CHECK_FALSE(task.is_done());
  start(task);
  CHECK(log == "a");
  CHECK(task.is_done());
}

TEST_CASE("a task that is never started is destroyed without running") {
  std::string log;
  { const Task<void> task = append(log, 'a'); }
  CHECK(log == "");
}

Task<int> sum_of_two() {
  const int first = co_await number(20);
  const int second = co_await number(22);
  co_return first + second;
}

TEST_CASE("a result reaches the awaiter and the owner of a root task") {
  Task<int> task = sum_of_two();
  start(task);
  REQUIRE(task.is_done());
  CHECK(task.result() == 42);
}

Task<std::unique_ptr<int>> boxed(int value) { co_return std::make_unique<int>(value); }

Task<int> unbox() {
  const std::unique_ptr<int> box = co_await boxed(7);
  co_return *box;
}

TEST_CASE("a result that can only be moved is moved") {
  Task<int> task = unbox();
  start(task);
  CHECK(task.result() == 7);
}

struct NoDefault {
  explicit NoDefault(int number) : value(number) {}
  int value;
};

Task<NoDefault> make_no_default() { co_return NoDefault(5); }

TEST_CASE("a result needs no default constructor") {
  Task<NoDefault> task = make_no_default();
  start(task);
  CHECK(task.result().value == 5);
}

Task<void> inner(Gate& gate, std::string& log) {
  log += 'b';
  co_await gate.wait();
  log += 'd';
}

Task<void> outer(Gate& gate, std::string& log) {
  log += 'a';
  co_await inner(gate, log);
  log += 'e';
}

TEST_CASE("a suspended inner task suspends its awaiter, and resuming it goes on in order") {
  Gate gate;
  std::string log;
  const Task<void> task = outer(gate, log);
  start(task);
  CHECK(log == "ab");
  CHECK_FALSE(task.is_done());
  log += 'c';
  gate.open();
  CHECK(log == "abcde");
  CHECK(task.is_done());
}

Task<void> fail_behind(Gate& gate) {
  co_await gate.wait();
  co_await fail();
}

Task<std::string> catch_behind(Gate& gate) {
  std::string caught;
  try {
    co_await fail_behind(gate);
  } catch (const std::runtime_error& error) {
    caught = error.what();
  }
  co_return caught;
}

TEST_CASE("an exception travels through awaiting tasks to the one that catches it") {
  Gate gate;
  Task<std::string> task = catch_behind(gate);
  start(task);
  gate.open();
  REQUIRE(task.is_done());
  CHECK(task.result() == "lost");
}

TEST_CASE("an exception that no task catches is thrown by result()") {
  Gate gate;
  Task<void> task = fail_behind(gate);
  start(task);
  CHECK_NOTHROW(gate.open());
  REQUIRE(task.is_done());
  CHECK_THROWS_WITH_AS(task.result(), "lost", std::runtime_error);
}

Task<void> hold(Gate& gate, std::string& log, char name) {
  const Witness witness{&log, name};
  co_await gate.wait();
  log += '!';
}

Task<void> hold_outer(Gate& gate, std::string& log) {
  const Witness witness{&log, 'o'};
  co_await hold(gate, log, 'i');
}

TEST_CASE("destroying a suspended task destroys what it awaits, the innermost locals first") {
  Gate gate;
  std::string log;
  {
    const Task<void> task = hold_outer(gate, log);
    start(task);
    CHECK(log == "");
  }
  CHECK(log == "io");
}

TEST_CASE("a moved task belongs to its new owner") {
  static_assert(!std::is_copy_constructible_v<Task<int>>);
  static_assert(std::is_nothrow_move_constructible_v<Task<int>>);
  Gate gate;
  std::string log;
  std::vector<Task<void>> tasks;
  for (const char name : {'a', 'b', 'c'}) tasks.push_back(hold(gate, log, name));  // reallocates
  start(tasks[1]);
  Task<void> moved = std::move(tasks[1]);
  tasks.clear();
  CHECK(log == "");  // b is alive; a and c were never started
  gate.open();
  CHECK(log == "!b");
  CHECK(moved.is_done());
}

TEST_CASE("assigning a task hands the old one to the source, which destroys it") {
  Gate first_gate;
  Gate second_gate;
  std::string log;
  Task<void> kept = hold(first_gate, log, 'a');
  start(kept);
  {
    Task<void> other = hold(second_gate, log, 'b');
    start(other);
    kept = std::move(other);
  }
  CHECK(log == "a");
  second_gate.open();
  CHECK(log == "a!b");
}

/// Address of the stack where it is called from, roughly.
[[gnu::noinline]] std::uintptr_t stack_position() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

struct StackUse {
  std::uintptr_t lowest = ~std::uintptr_t{0};
  std::uintptr_t highest = 0;
  void look() {
    const std::uintptr_t position = stack_position();
    lowest = position < lowest ? position : lowest;
    highest = position > highest ? position : highest;
  }
};

Task<int> look_and_return(StackUse& use, int value) {
  use.look();
  co_return value;
}

Task<std::int64_t> long_loop(StackUse& use, int count) {
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const int value = co_await look_and_return(use, i);
    use.look();
    sum += value;
  }
  co_return sum;
}

TEST_CASE("a long loop of awaits that complete at once does not grow the stack") {
  for (const int count : {1'000, 1'000'000}) {
    StackUse use;
    Task<std::int64_t> task = long_loop(use, count);
    start(task);
    CHECK(task.result() == std::int64_t{count} * (count - 1) / 2);
    if (!has_tail_calls) break;
    REQUIRE(use.highest - use.lowest < 1024);  // before the long loop overflows it
  }
}

Task<int> deep(StackUse& use, int depth) {
  use.look();
  if (depth == 0) co_return 0;
  const int below = co_await deep(use, depth - 1);
  use.look();
  co_return below + 1;
}

TEST_CASE("a deep chain of tasks lives on the heap and unwinds without stack") {
  for (const int depth : {1'000, 100'000}) {
    StackUse use;
    Task<int> task = deep(use, depth);
    start(task);
    REQUIRE(task.is_done());
    CHECK(task.result() == depth);
    if (!has_tail_calls) break;
    REQUIRE(use.highest - use.lowest < 1024);
  }
}

}  // namespace
}  // namespace starling::test_task
