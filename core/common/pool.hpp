// A few threads that wait without burning the machine: they spin for some microseconds, then sleep.
// (A pure spin barrier loses a factor of ten as soon as another process wants the core.)
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "simd/pause.hpp"

namespace psgld {

// Returns once `word` is no longer `old`: after spinning for a while, the thread sleeps.
inline void wait_while(const std::atomic<uint32_t>& word, uint32_t old, int microseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  do {
    for (int spin = 0; spin < 16; ++spin) {
      if (word.load(std::memory_order_acquire) != old) return;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  word.wait(old, std::memory_order_acquire);
}

class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  // The last to arrive runs `alone` before anyone leaves.
  template <class F>
  void arrive(F&& alone) {
    const uint32_t epoch = epoch_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      alone();
      arrived_.store(0, std::memory_order_relaxed);
      epoch_.store(epoch + 1, std::memory_order_release);
      epoch_.notify_all();
    } else {
      wait_while(epoch_, epoch, 20);
    }
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> epoch_{0};
};

// The first exception of several threads that work together.
class Failure {
 public:
  // Runs f, and keeps what it throws.
  template <class F>
  void guard(F&& f) noexcept {
    try {
      f();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
      any_.store(true, std::memory_order_release);
    }
  }
  explicit operator bool() const { return any_.load(std::memory_order_acquire); }

  // When all threads are done: passes it on, if there is one.
  void rethrow() {
    if (!any_.exchange(false, std::memory_order_acq_rel)) return;
    std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  std::atomic<bool> any_{false};
  std::exception_ptr first_;
  std::mutex mutex_;
};

// Address space that nobody else gets. (What malloc has, it may keep to itself.)
class Mapping {
 public:
  explicit Mapping(size_t bytes)
      : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        bytes_(bytes) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(data_, bytes_); }

 private:
  void* data_;
  size_t bytes_;
};

constexpr int kMostThreads = 4096;

class Pool {
 public:
  // Where the system has no room for all of them, none is left behind, and the error says so.
  explicit Pool(int threads) : size_(threads), done_(threads) {
    if (threads < 2) return;
    try {
      auto cushion = std::make_unique<Mapping>((size_t{1} << 20) + (size_t{1} << 16) * threads);
      workers_.reserve(threads - 1);
      for (int id = 1; id < threads; ++id) workers_.emplace_back([this, id] { work(id); });
      cushion.reset();
      run([](int) { first_exception(); });
    } catch (...) {
      end();
      throw;
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { end(); }

  int size() const { return size_; }

  // Every thread, the caller among them, runs job(id) once; returns when all have. If some of them throw, the
  // first exception is passed on then: no thread uses the caller's variables any more.
  template <class Job>
  void run(Job&& job) {
    auto call = [](void* j, int id) { (*static_cast<std::remove_reference_t<Job>*>(j))(id); };
    job_ = const_cast<void*>(static_cast<const void*>(std::addressof(job)));
    call_ = call;
    ticket_.fetch_add(1, std::memory_order_release);
    ticket_.notify_all();
    failure_.guard([&] { job(0); });
    done_.arrive([] {});
    failure_.rethrow();
  }

 private:
  // The memory in which the runtime keeps track of exceptions is given to a thread when it first throws. If
  // there is none, the process ends (glibc exits), whatever would have caught it. So all threads throw once
  // at the start, when a little memory that was put aside is free again.
  static void first_exception() {
    try {
      throw 0;
    } catch (int) {
    }
  }

  void work(int id) {
    for (uint32_t seen = 0;;) {
      wait_while(ticket_, seen, 200);  // long enough for a draw to be recorded in between
      ++seen;
      if (!call_) return;
      failure_.guard([&] { call_(job_, id); });
      done_.arrive([] {});
    }
  }

  void end() {
    call_ = nullptr;
    ticket_.fetch_add(1, std::memory_order_release);
    ticket_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  const int size_;
  void* job_ = nullptr;
  void (*call_)(void*, int) = nullptr;
  std::atomic<uint32_t> ticket_{0};
  Barrier done_;
  Failure failure_;
  std::vector<std::thread> workers_;
};

// Runs task(i, state) for all i < n; threads take them as they become free. A thread that takes any makes its
// state first, make(thread). After an exception no more are begun.
template <class Make, class Task>
void for_each(Pool& pool, int64_t n, Make&& make, Task&& task) {
  std::atomic<int64_t> next{0};
  auto work = [&](int thread) {
    int64_t i = next.fetch_add(1, std::memory_order_relaxed);
    if (i >= n) return;
    try {
      auto&& state = make(thread);
      for (; i < n; i = next.fetch_add(1, std::memory_order_relaxed)) task(i, state);
    } catch (...) {
      next.store(n, std::memory_order_relaxed);
      throw;
    }
  };
  n > 1 ? pool.run(work) : work(0);
}

// The same without state: task(i).
template <class Task>
void for_each(Pool& pool, int64_t n, Task&& task) {
  for_each(pool, n, [](int thread) { return thread; }, [&](int64_t i, int) { task(i); });
}

}  // namespace psgld
