#include "sim/kernel_model.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <string>
#include <vector>

#include "support/plain_fixture.h"

namespace nfsrdma::sim {
namespace {

/// The model of the kernel on a file layer, and a file that a program has open for reading and can map.
struct OneFile : fs::plain::Plain {
  OneFile() : kernel(*files) {
    const fs::OpenedFile made = create("f");
    inode = made.entry.inode;
    loop.run(kernel.entered(made.entry, kernel.version()));
    keep(made, O_RDWR | O_CREAT);
    CHECK(fs::plain::ok(loop.run(kernel.write(made.handle, inode, "mine", 0, O_RDWR))));
    CHECK(fs::plain::ok(loop.run(kernel.sync(made.handle, inode))));
    reader = open(O_RDONLY);
  }
  fs::OpenedFile open(int flags) { return keep(get(files->open(nullptr, inode, flags)), flags); }
  fs::OpenedFile keep(fs::OpenedFile file, int flags) {
    loop.run(kernel.opened(file, inode, flags));
    opened.push_back(file);
    return file;
  }
  void close() {
    for (const fs::OpenedFile& one : opened) {
      kernel.released(one.handle, inode);
      CHECK(fs::plain::ok(loop.run(files->close(one.handle))));
    }
  }
  /// Another client's write, of the same length.
  void write_elsewhere(const std::string& text) {
    engine->nodes.at(2).content = text;
    ++engine->nodes.at(2).change;
  }
  std::string load() { return get(kernel.load(reader.handle, inode, 0)).value_or("SIGBUS"); }

  std::uint64_t inode = 0;
  KernelModel kernel;
  fs::OpenedFile reader;
  std::vector<fs::OpenedFile> opened;
};

}  // namespace

// fuse_open() looks at FOPEN_KEEP_CACHE only, not at FOPEN_DIRECT_IO. Linux 6.18 drops mapped pages at such an open, too.
TEST_CASE("sim: the kernel model drops stale pages at an open whose own data bypasses the pages") {
  OneFile m;
  CHECK(m.get(m.kernel.size(m.inode)) == 4);
  CHECK(m.load() == "mine");
  fs::OpenedFile file;
  SUBCASE("the server's file is as it was: they stay") {
    file = m.open(O_WRONLY | O_APPEND);
    CHECK(file.keep_cache);
    CHECK(m.load() == "mine");
    m.write_elsewhere("them");
    CHECK(m.load() == "mine");
  }
  SUBCASE("another client has changed it: they go") {
    m.write_elsewhere("them");
    CHECK(m.load() == "mine");
    file = m.open(O_WRONLY | O_APPEND);
    CHECK_FALSE(file.keep_cache);
    CHECK(m.load() == "them");
  }
  CHECK(file.handle->uncached);
  m.close();
}

}  // namespace nfsrdma::sim
