// What a CacheDropper tells a real kernel, which has a file system of one file mounted that lives in this process.
//
// row: F30
#include "fuse/cache_dropper.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>

#include "async/loop.h"
#include "mount/mounting.h"

namespace nfsrdma::fuse {
namespace {

using testing::Child;

constexpr fuse_ino_t kFile = 2;
constexpr double kForever = 1e6;

/// The file "f", mounted, which the kernel asks for nothing twice.
class OneFile {
 public:
  explicit OneFile(std::string text) : content_(std::move(text)) {
    fuse_lowlevel_ops table{};
    table.lookup = lookup;
    table.getattr = [](fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
      const auto told = self(request).attributes(inode);
      fuse_reply_attr(request, &told, kForever);
    };
    table.open = [](fuse_req_t request, fuse_ino_t, fuse_file_info* file) { fuse_reply_open(request, file); };
    table.read = read;
    table.write = write;
    std::string word = "one-file";
    char* words = word.data();
    fuse_args args = FUSE_ARGS_INIT(1, &words);
    session = fuse_session_new(&args, &table, sizeof table, this);
    REQUIRE(session != nullptr);
    REQUIRE(::mkdtemp(place_.data()) != nullptr);
    REQUIRE(fuse_session_mount(session, place_.c_str()) == 0);
    thread_ = std::thread([this] { fuse_session_loop(session); });
  }
  ~OneFile() {
    fuse_session_exit(session);
    fuse_session_unmount(session);
    thread_.join();
    fuse_session_destroy(session);
    std::filesystem::remove(place_);
  }
  OneFile(const OneFile&) = delete;
  OneFile& operator=(const OneFile&) = delete;

  [[nodiscard]] std::string path() const { return place_ + "/f"; }
  [[nodiscard]] std::string content() const {
    const std::lock_guard guard(mutex_);
    return content_;
  }
  /// As another client would.
  void append(const std::string& text) {
    const std::lock_guard guard(mutex_);
    content_ += text;
  }

  fuse_session* session = nullptr;

 private:
  static OneFile& self(fuse_req_t request) { return *static_cast<OneFile*>(fuse_req_userdata(request)); }
  struct stat attributes(fuse_ino_t inode) const {
    struct stat out{};
    out.st_ino = inode;
    out.st_nlink = 1;
    out.st_mode = inode == kFile ? S_IFREG | 0600 : S_IFDIR | 0700;
    const std::lock_guard guard(mutex_);
    if (inode == kFile) out.st_size = static_cast<off_t>(content_.size());
    return out;
  }
  static void lookup(fuse_req_t request, fuse_ino_t /*directory*/, const char* name) {
    if (std::string_view(name) != "f") {
      fuse_reply_err(request, ENOENT);
      return;
    }
    fuse_entry_param entry{};
    entry.ino = kFile;
    entry.attr = self(request).attributes(kFile);
    entry.attr_timeout = entry.entry_timeout = kForever;
    fuse_reply_entry(request, &entry);
  }
  static void read(fuse_req_t request, fuse_ino_t /*inode*/, std::size_t size, off_t offset,
                   fuse_file_info* /*file*/) {
    const std::string all = self(request).content();
    const auto part =
        std::string_view(all).substr(std::min(all.size(), static_cast<std::size_t>(offset)), size);
    fuse_reply_buf(request, part.data(), part.size());
  }
  static void write(fuse_req_t request, fuse_ino_t /*inode*/, const char* data, std::size_t size,
                    off_t offset, fuse_file_info* /*file*/) {
    OneFile& all = self(request);
    {
      const std::lock_guard guard(all.mutex_);
      const auto at = static_cast<std::size_t>(offset);
      all.content_.resize(std::max(all.content_.size(), at + size));
      std::memcpy(all.content_.data() + at, data, size);
    }
    fuse_reply_write(request, size);
  }

  std::string place_ = std::filesystem::temp_directory_path() / "nfsrdma-dropper-XXXXXX";
  std::thread thread_;
  mutable std::mutex mutex_;  // guards `content_`
  std::string content_;
};

}  // namespace

TEST_CASE("F30 the kernel learns that a file has become longer, and no byte of its pages changes by that") {
  constexpr std::size_t kPage = 4096, kMapped = 4 * kPage;
  OneFile file("text");
  const int fd = ::open(file.path().c_str(), O_RDWR);
  REQUIRE(fd >= 0);
  void* const mapping = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(mapping != MAP_FAILED);
  auto* const mapped = static_cast<volatile char*>(mapping);
  // In a child: beyond the end is SIGBUS.
  const auto has = [&](std::size_t at, char expected) {
    Child child([&] { return mapped[at] == expected ? 0 : 1; });
    return child.ended(std::chrono::seconds(5)) == 0;
  };
  async::Loop loop;
  CacheDropper dropper(loop, file.session);
  const auto lengthen = [&](std::size_t end) {
    loop.run(dropper.lengthen(kFile, static_cast<off_t>(end)));
    CHECK(dropper.idle());
  };
  CHECK(has(3, 't'));
  CHECK_FALSE(has(kPage, 'x'));

  // Whoever learned the end before this store would tell the kernel an older byte.
  mapped[3] = 'T';
  lengthen(4);
  CHECK(has(3, 'T'));

  file.append(std::string(2 * kPage - 4, 'x'));
  lengthen(2 * kPage);
  CHECK(has(2 * kPage - 1, 'x'));
  CHECK_FALSE(has(2 * kPage, 'y'));
  CHECK(has(3, 'T'));

  // The first byte of a page is not taken for all of it.
  file.append(std::string(100, 'y'));
  lengthen(2 * kPage + 1);
  CHECK(has(2 * kPage, 'y'));
  CHECK(has(2 * kPage + 99, 'y'));

  CHECK(::msync(mapping, kMapped, MS_SYNC) == 0);
  CHECK(file.content().starts_with("texT"));
  ::munmap(mapping, kMapped);
  ::close(fd);
}

}  // namespace nfsrdma::fuse
