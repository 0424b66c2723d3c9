// A file as memory: pages come from disk when they are touched, and go again when the memory is wanted.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace psgld {

class Mapped {
 public:
  Mapped() = default;

  // An open file of exactly that many bytes, to be read; or (create) an empty one, to be filled. It stays
  // mapped when the caller closes or unlinks it. The disk space is reserved at once: a full disk is an error
  // here, not a crash later.
  Mapped(int file, size_t bytes, bool create) : bytes_(bytes) {
    if (create)
      reserve(file, bytes);
    else
      require_size(file, bytes);
    data_ = mmap(nullptr, bytes, create ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    if (data_ != MAP_FAILED) return;
    data_ = nullptr;
    if (errno == ENOMEM) throw std::bad_alloc();
    fail(errno);
  }
  Mapped(Mapped&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapped& operator=(Mapped&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapped() {
    if (data_) munmap(data_, bytes_);
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }

  // Ask for pages that will be read soon; the disk works while the caller goes on.
  void will_need(size_t from, size_t to) const {
    const size_t page = 4096, first = from / page * page;
    madvise(data() + first, to - first, MADV_WILLNEED);
  }

  // Wait until all that was written is on disk.
  void sync() const {
    if (msync(data_, bytes_, MS_SYNC)) fail(errno);
  }

 private:
  static void require_size(int file, size_t bytes) {
    struct stat status;
    if (fstat(file, &status)) fail(errno);
    if (static_cast<size_t>(status.st_size) != bytes) throw std::runtime_error("the file has another size");
  }
  static void reserve(int file, size_t bytes) {
    int error;
    do {
#if defined(__APPLE__)
      error = ftruncate(file, static_cast<off_t>(bytes)) ? errno : 0;
#else
      error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
#endif
    } while (error == EINTR);
    if (error) fail(error);
  }
  [[noreturn]] static void fail(int error) { throw std::system_error(error, std::generic_category()); }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace psgld
