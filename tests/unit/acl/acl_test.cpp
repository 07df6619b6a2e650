// Access control lists: their text, their octets, and what makes a POSIX list whole.
#include "nfsrdma/acl.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>

#include "acl/octets.h"

namespace nfsrdma::acl {
namespace {

PosixAce entry(AclTag tag, std::uint32_t permissions, std::uint32_t id = 0) {
  return {tag, id, permissions};
}
PosixAcl from_mode(std::uint32_t mode) {
  return {entry(AclTag::owner, (mode >> 6U) & 7U), entry(AclTag::owning_group, (mode >> 3U) & 7U),
          entry(AclTag::other, mode & 7U)};
}

AclNames two_names() {
  AclNames out;
  out.name = [](bool group, std::uint32_t id) {
    if (group && id == 100) return std::string("staff");
    return !group && id == 1000 ? std::string("joe") : std::to_string(id);
  };
  out.id = [](bool group, const std::string& name) -> std::optional<std::uint32_t> {
    if (group && name == "staff") return 100;
    if (!group && name == "joe") return 1000;
    return std::nullopt;
  };
  return out;
}

PosixAcls posix(std::string_view text) {
  auto got = parse_acl(text, two_names());
  if (!got) FAIL(got.error().text());
  return std::get<PosixAcls>(*got);
}
Nfs4Acl nfs4_list(std::string_view text) {
  auto got = parse_acl(text);
  if (!got) FAIL(got.error().text());
  return std::get<Nfs4Acl>(*got);
}
std::vector<std::byte> octets(std::initializer_list<unsigned> values) {
  std::vector<std::byte> out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

}  // namespace

TEST_CASE("acl: the text of getfacl, written and read") {
  PosixAcls lists;
  lists.access = {entry(AclTag::owner, 7),      entry(AclTag::user, 6, 1000), entry(AclTag::owning_group, 5),
                  entry(AclTag::group, 7, 100), entry(AclTag::mask, 5),       entry(AclTag::other, 0)};
  lists.inherited = from_mode(0750);
  const std::string text = acl_text(lists, two_names());
  CHECK(text ==
        "user::rwx\nuser:joe:rw-\t#effective:r--\ngroup::r-x\ngroup:staff:rwx\t#effective:r-x\nmask::r-x\n"
        "other::---\ndefault:user::rwx\ndefault:group::r-x\ndefault:other::---\n");
  CHECK(posix(text) == lists);
  CHECK(posix("# file: x\n\n" + text) == lists);
}

TEST_CASE("acl: the short forms of setfacl") {
  const PosixAcls got = posix(" u::rwx,u:joe:rw, g::5 ,m:rx,o:-,d:u::7,d:g:staff:r\n");
  CHECK(got.access == PosixAcl{entry(AclTag::owner, 7), entry(AclTag::user, 6, 1000),
                               entry(AclTag::owning_group, 5), entry(AclTag::mask, 5),
                               entry(AclTag::other, 0)});
  CHECK(got.inherited == PosixAcl{entry(AclTag::owner, 7), entry(AclTag::group, 4, 100)});
  CHECK(posix("user:4294967295:r--").access.front().id == 4294967295U);
  for (const char* wrong : {"user", "user:", "u:nobody-here:r", "u::rwz", "u::8", "x::r", "o:joe:r", "m:1:r",
                            "u:joe:", "d:d:u::r", "u::r:w"})
    CHECK_MESSAGE(!parse_acl(wrong, two_names()), wrong);
}

TEST_CASE("acl: the text of nfs4_getfacl, written and read") {
  const std::string text =
      "A::OWNER@:rwaxtTnNcCoy\nD:g:GROUP@:waD\nA:fdig:staff@example.org:rdx\nU:SF:EVERYONE@:w\n";
  const Nfs4Acl list = nfs4_list("# file: x\n" + text);
  REQUIRE(list.size() == 4);
  CHECK(list[0] == Nfs4Ace{0, 0, 0x1e01bf, "OWNER@"});
  CHECK(list[1] == Nfs4Ace{1, 0x40, 0x46, "GROUP@"});
  CHECK(list[2] == Nfs4Ace{0, 0x4b, 0x10021, "staff@example.org"});
  CHECK(list[3] == Nfs4Ace{2, 0x30, 0x2, "EVERYONE@"});
  CHECK(acl_text(list) ==
        "A::OWNER@:rwaxtTnNcCoy\nD:g:GROUP@:waD\nA:fdig:staff@example.org:rdx\nU:SF:EVERYONE@:w\n");
  CHECK(acl_text(nfs4_list("A::OWNER@:RX,D::a@b:W")) == "A::OWNER@:rxtncy\nD::a@b:watTNcCy\n");
  for (const char* wrong : {"A:", "A::OWNER@", "A:::r", "A::OWNER@:z", "A:q:OWNER@:r", "A::OWNER@:r,user::r"})
    CHECK_MESSAGE(!parse_acl(wrong), wrong);
}

TEST_CASE("acl: a POSIX list is put in order, or refused") {
  auto got =
      ordered({entry(AclTag::other, 1), entry(AclTag::user, 2, 9), entry(AclTag::mask, 7),
               entry(AclTag::user, 3, 4), entry(AclTag::owning_group, 4), entry(AclTag::owner, 5, 77)});
  REQUIRE(got);
  CHECK(*got == PosixAcl{entry(AclTag::owner, 5), entry(AclTag::user, 3, 4), entry(AclTag::user, 2, 9),
                         entry(AclTag::owning_group, 4), entry(AclTag::mask, 7), entry(AclTag::other, 1)});
  CHECK(ordered({})->empty());
  const auto refused = [](PosixAcl list, PosixAce more) {
    list.push_back(more);
    const auto result = ordered(std::move(list));
    return !result && result.error().errno_value() == EINVAL;
  };
  CHECK(refused(from_mode(0644), entry(AclTag::owner, 7)));
  CHECK(refused(from_mode(0644), entry(AclTag::user, 7, 5)));
  CHECK(refused(from_mode(0644), entry(static_cast<AclTag>(3), 7)));
  CHECK(refused(from_mode(0644), entry(AclTag::mask, 8)));
  CHECK(!ordered({entry(AclTag::owner, 7), entry(AclTag::other, 7)}));
}

TEST_CASE("acl: what is left out comes from what there is, and a mask allows what is below it") {
  PosixAcls current;
  current.access = from_mode(0640);
  current.inherited = from_mode(0700);
  CHECK(completed(PosixAcls(), current) == current);
  const PosixAcls named = completed(posix("u::rwx,u:joe:rw,g::r,o::-"), current);
  CHECK(named.access.back() == entry(AclTag::mask, 6));
  CHECK(named.inherited == current.inherited);
  const PosixAcls below = completed(posix("d:u:joe:x"), current);
  CHECK(below.access == current.access);
  CHECK(acl_text(below, two_names()) ==
        "user::rw-\ngroup::r--\nother::---\ndefault:user:joe:--x\ndefault:user::rw-\ndefault:group::r--\n"
        "default:other::---\ndefault:mask::r-x\n");
  // The mask of the one list says nothing of the other's, which is counted up.
  PosixAcls masked = current;
  masked.access.push_back(entry(AclTag::mask, 7));
  const PosixAcls counted = completed(posix("d:u:joe:x"), masked);
  CHECK(std::ranges::count(counted.inherited, entry(AclTag::mask, 5)) == 1);
  CHECK(std::ranges::count(counted.inherited, AclTag::mask, &PosixAce::tag) == 1);
}

TEST_CASE("acl: the octets of system.posix_acl_access") {
  const PosixAcl list{entry(AclTag::owner, 7), entry(AclTag::user, 6, 1000), entry(AclTag::owning_group, 5),
                      entry(AclTag::mask, 7), entry(AclTag::other, 4)};
  const auto wire = octets({2, 0,   0,   0,   1,   0,   7,    0, 255, 255, 255, 255, 2,   0,    6,
                            0, 232, 3,   0,   0,   4,   0,    5, 0,   255, 255, 255, 255, 0x10, 0,
                            7, 0,   255, 255, 255, 255, 0x20, 0, 4,   0,   255, 255, 255, 255});
  CHECK(acl::posix_octets(list) == wire);
  CHECK(*acl::posix_of(wire) == list);
  CHECK(acl::posix_of({})->empty());
  CHECK(acl::posix_of(std::span(wire).first(4))->empty());
  for (std::size_t size = 1; size < wire.size(); ++size) {
    if (size != 4) CHECK(!acl::posix_of(std::span(wire).first(size)));
  }
  auto other_version = wire;
  other_version[0] = std::byte{1};
  CHECK(!acl::posix_of(other_version));
}

TEST_CASE("acl: the octets of system.nfs4_acl") {
  const Nfs4Acl list{{0, 0x40, 0x12019f, "GROUP@"}};
  const auto wire = octets({0, 0,    0, 1, 0, 0, 0,   0,   0,   0,   0,   0x40, 0, 0x12,
                            1, 0x9f, 0, 0, 0, 6, 'G', 'R', 'O', 'U', 'P', '@',  0, 0});
  CHECK(acl::nfs4_octets(list) == wire);
  CHECK(*acl::nfs4_of(wire) == list);
  CHECK(acl::nfs4_of(octets({0, 0, 0, 0}))->empty());
  for (std::size_t size = 0; size < wire.size(); ++size) CHECK(!acl::nfs4_of(std::span(wire).first(size)));
  auto more = wire;
  more.resize(wire.size() + 4);
  CHECK(!acl::nfs4_of(more));
  CHECK(!acl::nfs4_of(octets({255, 255, 255, 255})));
}

}  // namespace nfsrdma::acl
