// A file as memory: pages come from disk when they are touched, and go again when the memory is wanted.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace psgld {

class Mapped {
 public:
  Mapped() = default;

  // An existing file of at least that many bytes, to be read; or (create) a new one of zeros, to be written.
  // The disk space is reserved at once: a full disk is an error here, not a crash later.
  Mapped(const std::string& path, size_t bytes, bool create) : bytes_(bytes) {
    const int file = create ? open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)
                            : open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail(errno, path);
    const off_t size = create ? 0 : lseek(file, 0, SEEK_END);
    int error = create ? reserve(file, bytes) : size < static_cast<off_t>(bytes) ? EINVAL : 0;
    if (!error) {
      data_ = mmap(nullptr, bytes, create ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
      if (data_ == MAP_FAILED) error = errno, data_ = nullptr;
    }
    close(file);
    if (error) fail(error, path);
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
    if (msync(data_, bytes_, MS_SYNC)) fail(errno, "blocks");
  }

 private:
  static int reserve(int file, size_t bytes) {
#if defined(__APPLE__)
    return ftruncate(file, static_cast<off_t>(bytes)) ? errno : 0;
#else
    return posix_fallocate(file, 0, static_cast<off_t>(bytes));
#endif
  }
  [[noreturn]] static void fail(int error, const std::string& path) {
    throw std::system_error(error, std::generic_category(), path);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace psgld
