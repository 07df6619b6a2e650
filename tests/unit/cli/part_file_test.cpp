// Parts of large files: their names, and which of them a copy goes on with.
#include "cli/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {

TEST_CASE("part: its name tells the version of the source, and is no longer than a name may be") {
  const PartOf of{100U << 20, {5, 7}};
  const std::string name = part_name("disk.img", of);
  CHECK(name.starts_with(".disk.img.nfsrdma-part-"));
  CHECK(name == part_name("disk.img", of));
  CHECK(name != part_name("disk.img", {(100U << 20) + 1, {5, 7}}));
  CHECK(name != part_name("disk.img", {100U << 20, {5, 8}}));
  CHECK(is_part_name(name));
  CHECK(is_part_of(name, "disk.img"));
  CHECK_FALSE(is_part_of(name, "disk"));
  CHECK_FALSE(is_part_of(name, "disk.imgs"));
  for (const char* other : {"", ".", "disk.img", ".x.nfsrdma-part-", ".x.nfsrdma-part-0123456789abcdeg",
                            ".nfsrdma-part-0123456789abcdef"})
    CHECK_FALSE(is_part_name(other));
  const std::string longest(255, 'n');
  CHECK(part_name(longest, of).size() == 255);
  CHECK(part_name(longest, of) != part_name(std::string(254, 'n') + "m", of));
}

TEST_CASE(
    "part: a copy goes on with its own one, at a multiple of the step, and removes those of other versions") {
  const Place here;
  const Descriptor directory(::open(here.path().c_str(), O_RDONLY | O_DIRECTORY));
  const PartOf of{3 * part_step, {5, 7}}, later{3 * part_step, {6, 7}};
  const std::string name = part_name("f", of);
  const auto begin_of = [&](const PartOf& one) {
    const auto part = open_local_part(directory.get(), "f", one, "f");
    return part ? std::optional(part->begin) : std::nullopt;
  };
  CHECK(begin_of(of) == 0);
  CHECK((here.facts(name).st_mode & 07777) == 0600);
  CHECK(::truncate(here.path(name).c_str(), static_cast<off_t>(2 * part_step + 5)) == 0);
  CHECK(begin_of(of) == 2 * part_step);
  // A mode of others shows that somebody else may have written to it.
  CHECK(::chmod(here.path(name).c_str(), 0666) == 0);
  CHECK(begin_of(of) == 0);
  CHECK(here.facts(name).st_size == 0);
  here.write(part_name("ff", of), "of another file", 0600);
  CHECK(begin_of(later) == 0);
  CHECK(here.names() == in_order({part_name("f", later), part_name("ff", of)}));
}

TEST_CASE("part: what lies under its name and is no file of this user is not written to") {
  const Place here;
  here.write("victim", "text", 0600);
  const Descriptor directory(::open(here.path().c_str(), O_RDONLY | O_DIRECTORY));
  const PartOf of{3 * part_step, {5, 7}};
  const std::string name = part_name("f", of);
  std::filesystem::create_symlink("victim", here.path(name));
  CHECK(open_local_part(directory.get(), "f", of, "f"));
  CHECK(S_ISREG(here.facts(name).st_mode));
  CHECK(here.read("victim") == "text");
  std::filesystem::remove(here.path(name));
  std::filesystem::create_hard_link(here.path("victim"), here.path(name));
  CHECK(open_local_part(directory.get(), "f", of, "f"));
  CHECK(here.facts("victim").st_nlink == 1);
}

}  // namespace nfsrdma::cli
