// A few threads that wait without burning the machine: they spin for some microseconds, then sleep.
// (A pure spin barrier loses a factor of ten as soon as another process wants the core.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace psgld {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

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

class Pool {
 public:
  explicit Pool(int threads) : size_(threads), done_(threads) {
    for (int id = 1; id < threads; ++id) workers_.emplace_back([this, id] { work(id); });
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    job_ = nullptr;
    ticket_.fetch_add(1, std::memory_order_release);
    ticket_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  int size() const { return size_; }

  // Every thread, the caller among them, runs job(id) once; returns when all have.
  void run(const std::function<void(int)>& job) {
    job_ = &job;
    ticket_.fetch_add(1, std::memory_order_release);
    ticket_.notify_all();
    job(0);
    done_.arrive([] {});
  }

 private:
  void work(int id) {
    for (uint32_t seen = 0;;) {
      wait_while(ticket_, seen, 200);  // long enough for a draw to be recorded in between
      ++seen;
      if (!job_) return;
      (*job_)(id);
      done_.arrive([] {});
    }
  }

  const int size_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<uint32_t> ticket_{0};
  Barrier done_;
  std::vector<std::thread> workers_;
};

// Runs task(i) for all i < n; threads take them as they become free. The first exception is passed on.
template <class Task>
void for_each(Pool& pool, int64_t n, Task&& task) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  auto work = [&](int) {
    try {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) task(i);
    } catch (...) {
      const std::lock_guard lock(guard);
      failure = std::current_exception();
    }
  };
  n > 1 ? pool.run(work) : work(0);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace psgld
