// truncate(2), which nobody but us judges on a mount of one user's own: whose rights are asked for, and when not.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>

#include "support/plain_fixture.h"

namespace nfsrdma::fs {

TEST_CASE("F11 truncate(2) takes the right to write, whoever owns the file; who has it open has had it") {
  plain::Plain p;
  const auto file = p.create("f");
  const Caller who = std::make_shared<security::Identity>();
  const auto set = [&](const SetAttributes& changes, std::shared_ptr<OpenHandle> open) {
    p.take_calls();
    return p.error(p.files->set_attributes(who, file.entry.inode, changes, std::move(open)));
  };
  SetAttributes size, mode;
  size.size = 0;
  mode.mode = 0444;
  p.engine->writable = false;
  CHECK(set(mode, nullptr) == 0);
  CHECK(p.take_calls() == "set");
  CHECK(set(size, nullptr) == EACCES);
  CHECK(p.take_calls() == "access attributes");
  CHECK(p.engine->callers.at("access") == who);
  CHECK(set(size, file.handle) == 0);
  CHECK(p.take_calls() == "set");
  const auto cut = p.get(p.files->open(who, file.entry.inode, O_WRONLY | O_TRUNC));
  CHECK(p.calls.find("access") == std::string::npos);
  p.engine->writable = true;
  CHECK(set(size, nullptr) == 0);
  CHECK(p.take_calls() == "access set");
  // Where the mode is not what is in the way the server says what is.
  p.engine->writable = false;
  mode.mode = 0644;
  CHECK(set(mode, nullptr) == 0);
  p.engine->fail("set", EROFS);
  CHECK(set(size, nullptr) == EROFS);
  CHECK(plain::ok(p.loop.run(p.files->close(cut.handle))));
  CHECK(plain::ok(p.loop.run(p.files->close(file.handle))));
}

}  // namespace nfsrdma::fs
