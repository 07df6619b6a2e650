// The file layer on an engine that is no NFSv4 (support/plain_engine.h).
#include <linux/falloc.h>
#include <sys/stat.h>

#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {
using plain::ok;
using plain::Plain;
}  // namespace

TEST_CASE("engine: what does not come along is asked for") {
  Plain p;
  const auto file = p.create("f");
  CHECK(file.entry.attributes.mode == 0644);
  CHECK(p.take_calls() == "make attributes");
  p.write(file, "some text", 0);
  CHECK(p.take_calls() == "");
  CHECK(ok(p.loop.run(p.files->flush(file.handle, 0))));
  CHECK(p.take_calls() == "write! attributes release");
  CHECK(p.read(file, 100) == "some text");
  const auto again = p.get(p.files->open(nullptr, file.entry.inode, O_RDONLY));
  CHECK_FALSE(again.keep_cache);
  const std::string large(1U << 20, 'x');
  p.write(file, large, 0);
  CHECK(ok(p.loop.run(p.files->sync(file.handle))));
  CHECK(p.calls.find("write commit") != std::string::npos);
  CHECK(p.get(p.files->attributes(nullptr, file.entry.inode)).attributes.size == large.size());
  CHECK(ok(p.loop.run(p.files->close(again.handle))));
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
  CHECK(p.get(p.files->lookup(nullptr, Inodes::kRoot, "f")).inode == file.entry.inode);
  CHECK(p.get(p.files->lookup(nullptr, Inodes::kRoot, "g")).inode == 0);
  p.engine->writable = false;
  CHECK(p.error(p.files->access(nullptr, file.entry.inode, R_OK)) == 0);
  CHECK(p.error(p.files->access(nullptr, file.entry.inode, R_OK | W_OK)) == EACCES);
}

TEST_CASE("engine: what the server does not do is done otherwise, or refused") {
  Plain p;
  const auto file = p.create("f");
  p.write(file, "0123456789", 0);
  CHECK(p.get(p.files->seek(file.handle, 3, SEEK_DATA)) == 3);
  CHECK(p.get(p.files->seek(file.handle, 3, SEEK_HOLE)) == 10);
  CHECK(p.error(p.files->seek(file.handle, 10, SEEK_DATA)) == ENXIO);
  CHECK(p.error(p.files->allocate(file.handle, 0, 0, 100)) == EOPNOTSUPP);
  CHECK(p.error(p.files->allocate(file.handle, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1)) ==
        EOPNOTSUPP);
  CHECK(p.error(p.files->copy(file.handle, 0, file.handle, 5, 5)) == EOPNOTSUPP);
  CHECK(p.error(p.files->get_xattr(nullptr, file.entry.inode, "user.x")) == EOPNOTSUPP);
  CHECK(p.error(p.files->list_xattrs(nullptr, file.entry.inode)) == EOPNOTSUPP);
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
}

TEST_CASE("engine: names that are listed without handles have a type and a number, and are looked up") {
  Plain p;
  const auto file = p.create("a");
  (void)p.get(p.files->make_directory(nullptr, Inodes::kRoot, "b", 0755));
  p.engine->nodes.at(3).filesystem = 8;  // another one, mounted there
  const auto directory = p.get(p.files->open_directory(nullptr, Inodes::kRoot, 0));
  const auto names = p.get(p.files->list(directory, 0));
  REQUIRE(names.size() == 2);
  CHECK(p.files->entry_of(*directory, names[0]).inode == 0);
  CHECK(p.files->brief_of(names[0]).file_id == 2);
  CHECK(p.files->brief_of(names[0]).type == FileType::regular);
  CHECK(p.files->brief_of(names[1]).type == FileType::directory);
  // Its numbers may be those of files here.
  CHECK(p.files->brief_of(names[1]).file_id != 3);
  CHECK(p.get(p.files->lookup(nullptr, Inodes::kRoot, "b")).attributes.file_id ==
        p.files->brief_of(names[1]).file_id);
  CHECK(p.get(p.files->list(directory, names[0].cookie)).size() == 1);
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
}

TEST_CASE("engine: a file that is removed while it is open is hidden until it is closed; locks go with it") {
  Plain p;
  const auto file = p.create("f");
  p.write(file, "text", 0);
  LockRequest request;
  request.owner = 5;
  CHECK(p.error(p.files->lock(file.handle, request, nullptr)) == 0);
  request.owner = 6;
  CHECK(p.error(p.files->lock(file.handle, request, nullptr)) == EAGAIN);
  CHECK(ok(p.loop.run(p.files->remove_file(nullptr, Inodes::kRoot, "f"))));
  const auto& names = p.engine->nodes.at(1).names;
  REQUIRE(names.size() == 1);
  CHECK(names.begin()->first.starts_with(".nfs"));
  CHECK(p.read(file, 10) == "text");
  CHECK(ok(p.loop.run(p.files->flush(file.handle, 5))));
  CHECK(p.engine->locker == 0);
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
  CHECK(names.empty());
}

}  // namespace nfsrdma::fs
