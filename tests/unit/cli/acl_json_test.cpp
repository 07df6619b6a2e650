// Access control lists as JSON: the members of both forms, and that "text" is what acl set takes.
#include "cli/acl_json.h"

#include <doctest/doctest.h>

#include <string>

namespace nfsrdma::cli {
namespace {

std::string acl_object(const Acl& acl, const AclNames& names = {}) {
  json::Object out;
  add_acl(out, acl, names);
  return out.str();
}

AclNames joe_and_staff() {
  AclNames out;
  out.name = [](bool group, std::uint32_t) { return std::string(group ? "staff" : "joe"); };
  return out;
}

}  // namespace

TEST_CASE("acl json: an NFSv4 entry has its parts, its mask and its text") {
  CHECK(acl_object(Nfs4Acl{{0, 0, 0x3, "OWNER@"}, {1, 0x43, 0x40000002, "staff@example.org"}}) ==
        R"({"form":"nfs4","entries":[)"
        R"({"type":"allow","flags":"","who":"OWNER@","permissions":"rw","mask":3,"text":"A::OWNER@:rw"},)"
        R"({"type":"deny","flags":"fdg","who":"staff@example.org","permissions":"w","mask":1073741826,)"
        R"("text":"D:fdg:staff@example.org:w"}]})");
  // A type that no RFC has is its number, and a principal may contain colons and quotes.
  CHECK(acl_object(Nfs4Acl{{9, 0, 1, "a:\"b"}}) ==
        R"({"form":"nfs4","entries":[)"
        R"({"type":"9","flags":"","who":"a:\"b","permissions":"r","mask":1,"text":"?::a:\"b:r"}]})");
  CHECK(acl_object(Nfs4Acl{}) == R"({"form":"nfs4","entries":[]})");
}

TEST_CASE("acl json: POSIX entries say what the mask leaves of them, each list by its own mask") {
  PosixAcls lists;
  lists.access = {{AclTag::owner, 0, 7}, {AclTag::user, 12, 6}, {AclTag::mask, 0, 4}};
  lists.inherited = {{AclTag::owning_group, 0, 7}, {AclTag::group, 34, 5}, {AclTag::other, 0, 0}};
  CHECK(
      acl_object(lists, joe_and_staff()) ==
      R"({"form":"posix","entries":[)"
      R"({"default":false,"tag":"owner","permissions":"rwx","effective":"rwx","text":"user::rwx"},)"
      R"({"default":false,"tag":"user","id":12,"name":"joe","permissions":"rw-","effective":"r--",)"
      R"("text":"user:joe:rw-"},)"
      R"({"default":false,"tag":"mask","permissions":"r--","effective":"r--","text":"mask::r--"},)"
      R"({"default":true,"tag":"owning_group","permissions":"rwx","effective":"rwx",)"
      R"("text":"default:group::rwx"},)"
      R"({"default":true,"tag":"group","id":34,"name":"staff","permissions":"r-x","effective":"r-x",)"
      R"("text":"default:group:staff:r-x"},)"
      R"({"default":true,"tag":"other","permissions":"---","effective":"---","text":"default:other::---"}]})");
}

}  // namespace nfsrdma::cli
