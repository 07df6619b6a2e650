// The version-neutral file layer on the test server: what it asks the server for, and what it answers by
// itself.
#include "fs/file_system.h"

#include <fcntl.h>

#include <cerrno>

#include "support/engine_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Files : Engine {
  std::optional<fs::FileSystem> files;
  Caller who = user(1000);

  ~Files() { files.reset(); }
  void mount(fs::Options options = {}) {
    connect();
    files.emplace(client->session, options, client->root);
    server.clear_calls();
  }
  template <class T>
  T get(async::Task<Result<T>> task) {
    auto got = client->run(std::move(task));
    if (!got) FAIL(got.error().text());
    return std::move(*got);
  }
  fs::OpenedFile create(const std::string& name) {
    return get(files->create(who, fs::Inodes::kRoot, name, 0644, O_WRONLY | O_CREAT));
  }
  fs::Entry lookup(const std::string& name) { return get(files->lookup(who, fs::Inodes::kRoot, name)); }
  Status write(const fs::OpenedFile& file, const std::string& text, std::uint64_t offset) {
    auto memory = std::make_shared<std::string>(text);
    const auto data = std::as_bytes(std::span(*memory));
    return client->run(files->write(file.handle, std::move(memory), data, offset));
  }
  Status flush(const fs::OpenedFile& file) { return client->run(files->flush(file.handle, 0)); }
  Status close(const fs::OpenedFile& file) { return client->run(files->close(file.handle)); }
  /// Its operations but for SEQUENCE and PUTFH, one COMPOUND to a word.
  [[nodiscard]] std::string calls() const {
    std::string out;
    for (const SeenCall& call : server.calls()) {
      if (!out.empty()) out += ' ';
      std::string one;
      for (const nfs_opnum4 op : call.ops) {
        if (op == OP_SEQUENCE || op == OP_PUTFH) continue;
        if (!one.empty()) one += '+';
        one += find_operation(op)->name;
      }
      out += one;
    }
    return out;
  }
};

}  // namespace

TEST_CASE("file system: a small file is one WRITE, safe when it is answered") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  m.server.clear_calls();
  CHECK(ok(m.write(file, "one ", 0)));
  CHECK(ok(m.write(file, "two ", 4)));
  CHECK(ok(m.write(file, "three", 8)));
  CHECK(m.calls() == "");
  CHECK(m.files->bytes_behind() == 13);
  CHECK(ok(m.flush(file)));
  CHECK(m.calls() == "WRITE+GETATTR");
  CHECK(m.server.stable_content("/f") == "one two three");
  CHECK(m.files->bytes_behind() == 0);
  CHECK(ok(m.flush(file)));
  CHECK(m.calls() == "WRITE+GETATTR");
  CHECK(ok(m.close(file)));
  CHECK(m.calls() == "WRITE+GETATTR CLOSE");
  // What the kernel has of it is what is there.
  const auto again = m.get(m.files->open(m.who, file.entry.inode, O_RDONLY));
  CHECK(again.keep_cache);
  CHECK(ok(m.close(again)));
}

TEST_CASE(
    "file system: what is gathered leaves by itself, at another place, when it is full, when it is wanted") {
  Files m;
  fs::Options options;
  options.wsize = 64;
  m.mount(options);
  const auto file = m.create("f");
  m.server.clear_calls();
  SUBCASE("by itself") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(m.client->turn_until([&] { return m.server.count(OP_WRITE) == 1; }));
    CHECK(m.client->turn_until([&] { return m.files->bytes_behind() == 0; }));
    CHECK(m.server.content("/f") == "text");
    CHECK(ok(m.flush(file)));
    CHECK(m.calls() == "WRITE COMMIT+GETATTR");
  }
  SUBCASE("at another place") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(ok(m.write(file, "more", 100)));
    CHECK(ok(m.write(file, "TEXT", 0)));
    CHECK(ok(m.flush(file)));
    CHECK(m.server.stable_content("/f")->substr(0, 4) == "TEXT");
    CHECK(m.server.stable_content("/f")->substr(100) == "more");
  }
  SUBCASE("full") {
    for (unsigned i = 0; i < 33; ++i) CHECK(ok(m.write(file, "1234", 4 * i)));
    CHECK(m.client->turn_until([&] { return m.server.count(OP_WRITE) >= 2; }));
    CHECK(ok(m.flush(file)));
    CHECK(m.server.count(OP_WRITE) == 3);
    CHECK(m.server.stable_content("/f")->size() == 132);
  }
  SUBCASE("for its attributes") {
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(m.get(m.files->attributes(m.who, file.entry.inode)).attributes.size == 4);
    CHECK(m.lookup("f").attributes.size == 4);
  }
  SUBCASE("for a reader") {
    const auto reader = m.get(m.files->open(m.who, file.entry.inode, O_RDONLY));
    CHECK(ok(m.write(file, "text", 0)));
    CHECK(m.get(m.files->read(reader.handle, 0, 100)).size == 4);
    CHECK(ok(m.close(reader)));
  }
  CHECK(ok(m.flush(file)));
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: the error of what was gathered comes once, at the next flush") {
  Files m;
  m.mount();
  const auto file = m.create("f");
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  CHECK(ok(m.write(file, "text", 0)));
  CHECK(errno_of(m.flush(file)) == ENOSPC);
  CHECK(ok(m.flush(file)));
  CHECK(ok(m.close(file)));
}

TEST_CASE("file system: flush asks for nothing where nothing was written") {
  Files m;
  m.server.add_file("/f", "text");
  m.mount();
  const auto file = m.get(m.files->open(m.who, m.lookup("f").inode, O_RDWR));
  m.server.clear_calls();
  CHECK(ok(m.flush(file)));
  CHECK(m.calls() == "");
  CHECK(ok(m.close(file)));
}

}  // namespace nfsrdma
