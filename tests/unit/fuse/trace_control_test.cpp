// The file .nfsrdma-trace of a mount: what it takes, and what it says.
#include "fuse/trace_control.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/scratch.h"

namespace nfsrdma::fuse {
namespace {

using testing::Scratch;

struct Controlled {
  explicit Controlled(const std::string& file) {
    options.trace = file;
    control.emplace(options, [this](const std::string& line) { lines.push_back(line); });
  }
  connect::Options options;
  std::vector<std::string> lines;
  std::optional<TraceControl> control;
};

}  // namespace

TEST_CASE("mount: a trace is switched on and off by words in a file") {
  const Scratch place("trace");
  const std::string file = place.path() + "/t";
  Controlled c("");
  CHECK(c.control->text() == "off\n");
  c.control->start();
  CHECK(c.lines.empty());
  CHECK(c.control->obey("on\n") == EINVAL);  // no file was named
  CHECK(c.control->obey("on relative\n") == EINVAL);
  CHECK(c.control->obey("off\n") == 0);
  CHECK(c.control->obey("on " + file + "\n") == 0);
  CHECK(c.control->text().starts_with("on " + file + "\nwritten_bytes="));
  CHECK(std::filesystem::exists(file));
  CHECK(c.control->obey("off") == 0);
  CHECK(c.control->text() == "off " + file + "\n");
  CHECK(c.control->obey("on") == 0);
  CHECK(c.control->obey("maybe") == EINVAL);
  CHECK(c.control->text().starts_with("on "));
}

TEST_CASE("mount: a path that leads to a mount of this program is found without entering it") {
  const Scratch place("trace");
  std::filesystem::create_directory_symlink(".", place.path() + "/here");
  std::filesystem::create_symlink("loop", place.path() + "/loop");
  CHECK_FALSE(leads_to_nfsrdma(place.path() + "/here/../t"));
  CHECK_FALSE(leads_to_nfsrdma("/t"));
  CHECK(leads_to_nfsrdma(place.path() + "/loop/t"));  // nobody knows where it leads
}

TEST_CASE("mount: the option trace begins a trace, and a file that cannot be written is logged") {
  const Scratch place("trace");
  Controlled good(place.path() + "/t");
  good.control->start();
  CHECK(good.control->text().starts_with("on "));
  CHECK(good.lines.size() == 1);

  std::ofstream(place.path() + "/notes") << "do not lose this";
  Controlled bad(place.path() + "/notes");
  bad.control->start();
  CHECK(bad.control->text().starts_with("off "));
  REQUIRE(bad.lines.size() == 1);
  CHECK(bad.lines[0].find("is not a trace") != std::string::npos);
  CHECK(bad.control->obey("on " + place.path() + "/notes") == EEXIST);
}

}  // namespace nfsrdma::fuse
