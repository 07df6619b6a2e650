// A file of a mount against a model of it in memory: seeded random operations, after each of which both must
// say the same. Plain POSIX, so that a local file system can be exercised with it, too.
//
//   mount_exercise --directory DIR [--seed N] [--ops N] [--size BYTES]
//
// Two files, since copy_file_range() may have two. What a file system refuses (EOPNOTSUPP, EINVAL for
// O_DIRECT) is left out from then on, after a notice. Exit status: 0, 1 (it differs: standard error has the
// last operations and where), 2 (usage, or something that should not fail did).
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kTail = 40;  // operations that are told when something differs

struct Settings {
  std::string directory;
  std::uint64_t seed = 1, ops = 10000, size = 1 << 20;
};

/// Page-aligned memory, as O_DIRECT wants it.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : memory_(static_cast<char*>(std::aligned_alloc(kPage, round_up(size)))) {
    if (memory_ == nullptr) std::abort();
  }
  [[nodiscard]] char* data() const { return memory_.get(); }

 private:
  static std::size_t round_up(std::size_t size) { return (size / kPage + 1) * kPage; }
  struct Free {
    void operator()(char* memory) const { std::free(memory); }  // NOLINT: aligned_alloc's
  };
  std::unique_ptr<char, Free> memory_;
};

struct File {
  std::string path;
  int fd = -1;
  std::vector<char> model;
};

class Exercise {
 public:
  explicit Exercise(Settings settings);
  int run();

 private:
  struct Operation {
    const char* name;
    unsigned weight;
    void (Exercise::*run)();
  };
  static const std::array<Operation, 17> kOperations;

  // ---- the operations ----
  void read();
  void write();
  void append();
  void map_read();
  void map_write();
  void cut_down();
  void extend();
  void allocate();
  void punch();
  void copy();
  void seek();
  void sync();
  void reopen();
  void direct_read();
  void direct_write();
  void size();
  void second_open();

  // ---- what they share ----
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) {
    return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random_);
  }
  /// An offset and a length within the largest size; mostly near a page's edge, and mostly short.
  std::pair<std::size_t, std::size_t> range(std::size_t limit);
  void fill(char* to, std::size_t length);
  void put(File& file, std::size_t offset, const char* from, std::size_t length);
  void compare(File& file, std::size_t offset, const char* found, std::size_t length);
  void write_at(int fd, const char* from, std::size_t length, std::size_t offset, bool appending);
  /// As many bytes as there are: fewer than `length` at the end only.
  std::size_t read_at(int fd, char* to, std::size_t length, std::size_t offset);
  void check_size(File& file);
  void check_read(File& file, int fd, std::size_t offset, std::size_t length);
  void check_all(File& file);
  void open(File& file);
  /// True if the call worked; false if it is refused here, which is said once.
  bool allowed(int result, const char* what);
  [[gnu::format(printf, 2, 3)]] void note(const char* format, ...);
  [[gnu::format(printf, 2, 3), noreturn]] void differs(const char* format, ...);
  [[noreturn]] void failed(const char* what);
  void tell_tail() const;

  const Settings settings_;
  std::mt19937_64 random_;
  std::array<File, 2> files_;
  File* file_ = nullptr;  // that the operation is about
  std::uint64_t count_ = 0;
  const char* operation_ = "";
  std::deque<std::string> log_;
  std::map<std::string, bool> refused_;
};

const std::array<Exercise::Operation, 17> Exercise::kOperations{{
    {"read", 16, &Exercise::read},
    {"write", 16, &Exercise::write},
    {"append", 5, &Exercise::append},
    {"mmap read", 5, &Exercise::map_read},
    {"mmap write", 6, &Exercise::map_write},
    {"truncate down", 3, &Exercise::cut_down},
    {"truncate up", 3, &Exercise::extend},
    {"fallocate", 3, &Exercise::allocate},
    {"punch hole", 4, &Exercise::punch},
    {"copy_file_range", 4, &Exercise::copy},
    {"lseek", 5, &Exercise::seek},
    {"fsync", 2, &Exercise::sync},
    {"reopen", 4, &Exercise::reopen},
    {"direct read", 4, &Exercise::direct_read},
    {"direct write", 4, &Exercise::direct_write},
    {"stat", 5, &Exercise::size},
    {"second open", 3, &Exercise::second_open},
}};

Exercise::Exercise(Settings settings) : settings_(std::move(settings)), random_(settings_.seed) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    files_[i].path =
        settings_.directory + "/exercise." + std::to_string(settings_.seed) + "." + std::to_string(i);
  }
}

// ---- what they share ----

void Exercise::note(const char* format, ...) {
  std::array<char, 200> text{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  log_.push_back(std::to_string(count_) + " " + operation_ + " file " + (file_ == &files_[0] ? "0 " : "1 ") +
                 text.data());
  if (log_.size() > kTail) log_.pop_front();
}

void Exercise::tell_tail() const {
  for (const std::string& line : log_) std::fprintf(stderr, "  %s\n", line.c_str());
}

void Exercise::differs(const char* format, ...) {
  tell_tail();
  std::fprintf(stderr,
               "mount_exercise: seed %ju, operation %ju (%s): ", static_cast<std::uintmax_t>(settings_.seed),
               static_cast<std::uintmax_t>(count_), operation_);
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::exit(1);
}

void Exercise::failed(const char* what) {
  const int code = errno;
  tell_tail();
  std::fprintf(stderr, "mount_exercise: seed %ju, operation %ju (%s): %s: %s\n",
               static_cast<std::uintmax_t>(settings_.seed), static_cast<std::uintmax_t>(count_), operation_,
               what, std::strerror(code));
  std::exit(2);
}

bool Exercise::allowed(int result, const char* what) {
  if (result >= 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS &&
      !(errno == EINVAL && std::string_view(what).contains("O_DIRECT"))) {
    failed(what);
  }
  if (!std::exchange(refused_[what], true)) {
    std::printf("mount_exercise: left out, since it is refused here: %s: %s\n", what, std::strerror(errno));
  }
  return false;
}

std::pair<std::size_t, std::size_t> Exercise::range(std::size_t limit) {
  if (limit == 0) return {0, 0};
  std::size_t offset = below(limit);
  if (below(2) == 0) offset = std::min(limit - 1, offset / kPage * kPage + below(3));
  std::size_t length = 0;
  switch (below(4)) {
    case 0:
      length = 1 + below(64);
      break;
    case 1:
      length = 1 + below(3 * kPage);
      break;
    case 2:
      length = kPage * (1 + below(8));
      break;
    default:
      length = 1 + below(limit);
      break;
  }
  return {offset, std::min(length, limit - offset)};
}

/// Bytes that tell which operation wrote them and where, never zero, so that a hole is not mistaken for data.
void Exercise::fill(char* to, std::size_t length) {
  const std::uint64_t base = count_ * 7 + below(200);
  for (std::size_t i = 0; i < length; ++i) to[i] = static_cast<char>(1 + (base + i + i / kPage) % 251);
}

void Exercise::put(File& file, std::size_t offset, const char* from, std::size_t length) {
  if (file.model.size() < offset + length) file.model.resize(offset + length, 0);
  std::copy_n(from, length, file.model.begin() + static_cast<std::ptrdiff_t>(offset));
}

void Exercise::compare(File& file, std::size_t offset, const char* found, std::size_t length) {
  const char* expected = file.model.data() + offset;
  if (length == 0 || std::memcmp(expected, found, length) == 0) return;
  const auto wrong =
      static_cast<std::size_t>(std::mismatch(expected, expected + length, found).first - expected);
  std::size_t end = wrong;
  while (end < length && expected[end] != found[end]) ++end;
  differs(
      "file %d of %zu bytes, read %zu bytes at %zu: from %zu (0x%zx) to %zu it differs; expected %02x, found "
      "%02x",
      file_ == &files_[0] ? 0 : 1, file.model.size(), length, offset, offset + wrong, offset + wrong,
      offset + end, static_cast<unsigned char>(expected[wrong]), static_cast<unsigned char>(found[wrong]));
}

void Exercise::write_at(int fd, const char* from, std::size_t length, std::size_t offset, bool appending) {
  while (length != 0) {
    const ssize_t done =
        appending ? ::write(fd, from, length) : ::pwrite(fd, from, length, static_cast<off_t>(offset));
    if (done <= 0) failed("write");
    from += done;
    offset += static_cast<std::size_t>(done);
    length -= static_cast<std::size_t>(done);
  }
}

std::size_t Exercise::read_at(int fd, char* to, std::size_t length, std::size_t offset) {
  std::size_t got = 0;
  while (got < length) {
    const ssize_t piece = ::pread(fd, to + got, length - got, static_cast<off_t>(offset + got));
    if (piece < 0) failed("read");
    if (piece == 0) break;
    got += static_cast<std::size_t>(piece);
  }
  return got;
}

void Exercise::check_size(File& file) {
  struct stat now{};
  if (::fstat(file.fd, &now) != 0) failed("fstat");
  if (static_cast<std::size_t>(now.st_size) != file.model.size()) {
    differs("the size: expected %zu, found %jd", file.model.size(), static_cast<std::intmax_t>(now.st_size));
  }
}

void Exercise::check_read(File& file, int fd, std::size_t offset, std::size_t length) {
  const std::size_t there = offset < file.model.size() ? std::min(length, file.model.size() - offset) : 0;
  const Buffer found(length);
  const std::size_t got = read_at(fd, found.data(), length, offset);
  if (got != there) {
    differs("%zu bytes at %zu of a file of %zu: read %zu, not %zu", length, offset, file.model.size(), got,
            there);
  }
  compare(file, offset, found.data(), got);
}

void Exercise::check_all(File& file) {
  file_ = &file;
  check_size(file);
  check_read(file, file.fd, 0, file.model.size() + kPage);
}

void Exercise::open(File& file) {
  file.fd = ::open(file.path.c_str(), O_RDWR | O_CLOEXEC);
  if (file.fd < 0) failed("open");
}

// ---- the operations ----

void Exercise::read() {
  const auto [offset, length] = range(settings_.size);
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  check_read(*file_, file_->fd, offset, length);
}

void Exercise::write() {
  const auto [offset, length] = range(settings_.size);
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  const Buffer bytes(length);
  fill(bytes.data(), length);
  write_at(file_->fd, bytes.data(), length, offset, false);
  put(*file_, offset, bytes.data(), length);
}

void Exercise::append() {
  const std::size_t length = range(settings_.size).second;
  if (file_->model.size() + length > settings_.size) return;
  note("%zu bytes to %zu", length, file_->model.size());
  const Buffer bytes(length);
  fill(bytes.data(), length);
  const int fd = ::open(file_->path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) failed("open for appending");
  write_at(fd, bytes.data(), length, 0, true);
  if (::close(fd) != 0) failed("close after appending");
  put(*file_, file_->model.size(), bytes.data(), length);
}

void Exercise::map_read() {
  const auto [offset, length] = range(file_->model.size());
  if (length == 0) return;
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  const std::size_t skip = offset % kPage;
  void* map =
      ::mmap(nullptr, length + skip, PROT_READ, MAP_SHARED, file_->fd, static_cast<off_t>(offset - skip));
  if (map == MAP_FAILED) {
    if (errno == ENODEV) errno = EOPNOTSUPP;
    allowed(-1, "mmap");
    return;
  }
  compare(*file_, offset, static_cast<char*>(map) + skip, length);
  ::munmap(map, length + skip);
}

void Exercise::map_write() {
  const auto [offset, length] = range(file_->model.size());
  if (length == 0) return;
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  const std::size_t skip = offset % kPage;
  void* map = ::mmap(nullptr, length + skip, PROT_READ | PROT_WRITE, MAP_SHARED, file_->fd,
                     static_cast<off_t>(offset - skip));
  if (map == MAP_FAILED) {
    if (errno == ENODEV) errno = EOPNOTSUPP;
    allowed(-1, "mmap for writing");
    return;
  }
  const Buffer bytes(length);
  fill(bytes.data(), length);
  std::copy_n(bytes.data(), length, static_cast<char*>(map) + skip);
  // In half of the cases the pages stay dirty: what comes next must see them all the same.
  if (below(2) == 0 && ::msync(map, length + skip, MS_SYNC) != 0) failed("msync");
  ::munmap(map, length + skip);
  put(*file_, offset, bytes.data(), length);
}

void Exercise::cut_down() {
  const std::size_t to = below(file_->model.size() + 1);
  note("%zu to %zu", file_->model.size(), to);
  if (::ftruncate(file_->fd, static_cast<off_t>(to)) != 0) failed("ftruncate");
  file_->model.resize(to);
}

void Exercise::extend() {
  const std::size_t to = file_->model.size() + below(settings_.size - file_->model.size() + 1);
  note("%zu to %zu", file_->model.size(), to);
  const int failure = below(2) == 0 ? ::ftruncate(file_->fd, static_cast<off_t>(to))
                                    : ::truncate(file_->path.c_str(), static_cast<off_t>(to));
  if (failure != 0) failed("truncate");
  file_->model.resize(to, 0);
}

void Exercise::allocate() {
  const auto [offset, length] = range(settings_.size);
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  if (refused_["fallocate"]) return;
  if (!allowed(::fallocate(file_->fd, 0, static_cast<off_t>(offset), static_cast<off_t>(length)),
               "fallocate"))
    return;
  if (file_->model.size() < offset + length) file_->model.resize(offset + length, 0);
}

void Exercise::punch() {
  const auto [offset, length] = range(settings_.size);
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  if (refused_["punching holes"]) return;
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (!allowed(::fallocate(file_->fd, mode, static_cast<off_t>(offset), static_cast<off_t>(length)),
               "punching holes")) {
    return;
  }
  const std::size_t end = std::min(offset + length, file_->model.size());
  for (std::size_t i = offset; i < end; ++i) file_->model[i] = 0;
}

void Exercise::copy() {
  File& from = files_[below(2)];
  File& to = *file_;
  auto [source, length] = range(from.model.size());
  const std::size_t target = below(settings_.size);
  length = std::min(length, settings_.size - target);
  // Within one file the ranges must not meet (EINVAL).
  if (&from == &to && source < target + length && target < source + length) return;
  note("%zu bytes from file %d at %zu of %zu to %zu of %zu", length, &from == &files_[0] ? 0 : 1, source,
       from.model.size(), target, to.model.size());
  if (refused_["copy_file_range"]) return;
  if (length == 0) return;
  auto in = static_cast<off_t>(source);
  auto out = static_cast<off_t>(target);
  const ssize_t copied = ::copy_file_range(from.fd, &in, to.fd, &out, length, 0);
  if (!allowed(static_cast<int>(std::min<ssize_t>(copied, 0)), "copy_file_range")) return;
  // Fewer bytes than asked for are allowed; none are not.
  if (copied == 0) differs("copy_file_range copied nothing of %zu bytes at %zu", length, source);
  const auto first = from.model.begin() + static_cast<std::ptrdiff_t>(source);
  const std::vector<char> bytes(first, first + copied);
  put(to, target, bytes.data(), bytes.size());
}

/// Holes are zero in the model; that zeros are data is allowed.
void Exercise::seek() {
  const std::size_t size = file_->model.size();
  const std::size_t from = below(size + 2);
  const int whence = below(2) == 0 ? SEEK_DATA : SEEK_HOLE;
  note("%s from %zu of %zu", whence == SEEK_DATA ? "SEEK_DATA" : "SEEK_HOLE", from, size);
  const off_t found = ::lseek(file_->fd, static_cast<off_t>(from), whence);
  const auto& model = file_->model;
  const auto at = static_cast<std::size_t>(std::max<off_t>(found, 0));
  if (from >= size) {
    if (found >= 0 || errno != ENXIO)
      differs("behind the end: found %jd, not ENXIO", static_cast<std::intmax_t>(found));
    return;
  }
  const auto begin = model.begin() + static_cast<std::ptrdiff_t>(from);
  if (whence == SEEK_DATA) {
    if (found < 0 && errno != ENXIO) failed("lseek");
    const auto end =
        found < 0 ? model.end() : model.begin() + static_cast<std::ptrdiff_t>(std::min(at, size));
    const auto data = std::find_if(begin, end, [](char c) { return c != 0; });
    if (found >= 0 && (at < from || at >= size)) differs("SEEK_DATA gives %zu", at);
    if (data != end) {
      differs("SEEK_DATA gives %jd, but there is data at %td", static_cast<std::intmax_t>(found),
              data - model.begin());
    }
    return;
  }
  if (found < 0) failed("lseek");
  if (at < from || at > size) differs("SEEK_HOLE gives %zu", at);
  if (at < size && model[at] != 0) differs("SEEK_HOLE gives %zu, where there is data", at);
}

void Exercise::sync() {
  note("%zu bytes", file_->model.size());
  if ((below(2) == 0 ? ::fsync(file_->fd) : ::fdatasync(file_->fd)) != 0) failed("fsync");
}

void Exercise::reopen() {
  const bool drop = below(2) == 0;
  note("%s", drop ? "with what is cached dropped" : "");
  if (drop) {
    // Dirty pages cannot be dropped.
    if (::fsync(file_->fd) != 0) failed("fsync");
    if (::posix_fadvise(file_->fd, 0, 0, POSIX_FADV_DONTNEED) != 0) failed("posix_fadvise");
  }
  if (::close(file_->fd) != 0) failed("close");
  open(*file_);
  check_all(*file_);
}

void Exercise::direct_read() {
  if (refused_["O_DIRECT"]) return;
  const std::size_t offset = below(settings_.size) / kPage * kPage;
  const std::size_t length = kPage * (1 + below(32));
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  const int fd = ::open(file_->path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (!allowed(fd, "O_DIRECT")) return;
  check_read(*file_, fd, offset, length);
  ::close(fd);
}

void Exercise::direct_write() {
  if (refused_["O_DIRECT"]) return;
  const std::size_t offset = below(settings_.size - kPage + 1) / kPage * kPage;
  const std::size_t length =
      std::min<std::size_t>(kPage * (1 + below(32)), (settings_.size - offset) / kPage * kPage);
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  const int fd = ::open(file_->path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  if (!allowed(fd, "O_DIRECT")) return;
  const Buffer bytes(length);
  fill(bytes.data(), length);
  write_at(fd, bytes.data(), length, offset, false);
  if (::close(fd) != 0) failed("close after a direct write");
  put(*file_, offset, bytes.data(), length);
}

void Exercise::size() {
  note("%zu", file_->model.size());
  check_size(*file_);
  struct stat now{};
  if (::stat(file_->path.c_str(), &now) != 0) failed("stat");
  if (static_cast<std::size_t>(now.st_size) != file_->model.size()) {
    differs("the size by name: expected %zu, found %jd", file_->model.size(),
            static_cast<std::intmax_t>(now.st_size));
  }
}

/// Another file descriptor sees what the first one wrote, and the other way round.
void Exercise::second_open() {
  const auto [offset, length] = range(settings_.size);
  note("%zu bytes at %zu of %zu", length, offset, file_->model.size());
  const int fd = ::open(file_->path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) failed("a second open");
  check_read(*file_, fd, offset, length);
  const Buffer bytes(length);
  fill(bytes.data(), length);
  write_at(fd, bytes.data(), length, offset, false);
  put(*file_, offset, bytes.data(), length);
  if (::close(fd) != 0) failed("close of the second");
}

int Exercise::run() {
  for (File& file : files_) {
    file.fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file.fd < 0) failed(file.path.c_str());
  }
  unsigned total = 0;
  for (const Operation& operation : kOperations) total += operation.weight;
  for (count_ = 1; count_ <= settings_.ops; ++count_) {
    file_ = &files_[below(4) == 0 ? 1 : 0];
    auto at = static_cast<unsigned>(below(total));
    const Operation* chosen = kOperations.data();
    while (at >= chosen->weight) at -= (chosen++)->weight;
    operation_ = chosen->name;
    (this->*chosen->run)();
    check_size(*file_);
    // The neighbourhood of anything: what an operation should not have touched.
    const auto [offset, length] = range(file_->model.size());
    check_read(*file_, file_->fd, offset, std::min(length, 4 * kPage));
    if (count_ % 200 == 0) {
      for (File& file : files_) check_all(file);
    }
  }
  operation_ = "the end";
  for (File& file : files_) {
    check_all(file);
    if (::close(file.fd) != 0) failed("close");
    open(file);
    check_all(file);
    ::close(file.fd);
    if (::unlink(file.path.c_str()) != 0) failed("unlink");
  }
  std::printf("mount_exercise: seed %ju: %ju operations\n", static_cast<std::uintmax_t>(settings_.seed),
              static_cast<std::uintmax_t>(settings_.ops));
  return 0;
}

bool number(std::string_view text, std::uint64_t least, std::uint64_t& out) {
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  return fault == std::errc{} && stop == text.data() + text.size() && out >= least;
}

bool parse(int argc, char** argv, Settings& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    bool good = true;
    if (name == "--directory") {
      out.directory = value;
    } else if (name == "--seed") {
      good = number(value, 0, out.seed);
    } else if (name == "--ops") {
      good = number(value, 1, out.ops);
    } else if (name == "--size") {
      good = number(value, kPage, out.size);
    } else {
      good = false;
    }
    if (!good) return false;
  }
  return argc % 2 == 1 && !out.directory.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fputs("usage: mount_exercise --directory DIR [--seed N] [--ops N] [--size BYTES, at least 4096]\n",
               stderr);
    return 2;
  }
  return Exercise(std::move(settings)).run();
}
