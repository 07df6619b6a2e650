// The file of a trace: who may read it, what it may replace, and how it is rotated.
#include "trace/recording/trace_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/scratch.h"
#include "support/trace_messages.h"

namespace nfsrdma::trace {
namespace {

using testing::Scratch;
using testing::traced::content_of_file;

Octets section_block() {
  Octets out;
  append_section(out, "test");
  return out;
}
void put_text(const std::string& name, const std::string& text) {
  std::ofstream(name) << text;
}
std::uintmax_t size_of(const std::string& name) {
  return std::filesystem::file_size(name);
}

}  // namespace

TEST_CASE("trace: the file is new, and only its owner may read it") {
  const Scratch place("trace");
  const std::string name = place.path() + "/t.pcapng";
  TraceFile file;
  const mode_t mask = ::umask(0);
  REQUIRE(file.open(name, 1000));
  ::umask(mask);
  struct stat facts{};
  REQUIRE(::stat(name.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0600);
  REQUIRE(file.write(section_block()));
  CHECK(file.size() == size_of(name));
}

TEST_CASE("trace: an older trace and an empty file are replaced, and nothing else is") {
  const Scratch place("trace");
  const std::string name = place.path() + "/t";
  TraceFile file;
  REQUIRE(file.open(name, 1000));
  REQUIRE(file.write(section_block()));
  CHECK(file.open(name, 1000).error().message().find("another process") != std::string::npos);
  file.close();
  REQUIRE(file.open(name, 1000));
  CHECK(size_of(name) == 0);
  file.close();

  const std::string notes = place.path() + "/notes";
  put_text(notes, "do not lose this");
  const Status refused = file.open(notes, 1000);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().errno_value() == EEXIST);
  CHECK(refused.error().message() ==
        "the file exists, and is not a trace; name another file, or remove this one");
  CHECK(size_of(notes) == 16);

  const std::string link = place.path() + "/link";
  REQUIRE(::symlink(name.c_str(), link.c_str()) == 0);
  CHECK(file.open(link, 1000).error().message().find("symbolic link") != std::string::npos);
  REQUIRE(::mkfifo((place.path() + "/fifo").c_str(), 0600) == 0);
  CHECK_FALSE(file.open(place.path() + "/fifo", 1000));
  CHECK_FALSE(file.open(place.path(), 1000));
  CHECK(file.open(place.path() + "/none/t", 1000).error().errno_value() == ENOENT);
}

TEST_CASE("trace: a full file becomes FILE.1, in place of an older one") {
  const Scratch place("trace");
  const std::string name = place.path() + "/t";
  TraceFile file;
  REQUIRE(file.open(name, 100));
  const Octets block = section_block();  // of 40 bytes
  REQUIRE(file.write(block));
  REQUIRE(file.write(block));
  CHECK_FALSE(file.is_full(20));
  CHECK(file.is_full(21));
  REQUIRE(file.rotate());
  CHECK(size_of(name) == 0);
  CHECK(size_of(name + ".1") == 80);
  REQUIRE(file.write(block));
  REQUIRE(file.rotate());
  CHECK(size_of(name + ".1") == 40);
}

TEST_CASE("trace: a file that cannot be rotated ends, and the Error says what goes on") {
  const Scratch place("trace");
  const std::string inner = place.path() + "/inner";
  std::filesystem::create_directory(inner);
  TraceFile file;
  REQUIRE(file.open(inner + "/t", 100));
  std::filesystem::remove_all(inner);
  const Status done = file.rotate();
  REQUIRE_FALSE(done);
  CHECK_FALSE(file.is_open());
  CHECK_FALSE(file.rotate());
}

}  // namespace nfsrdma::trace
