// NFSv2 (nfs2/translation.h) under the engine that NFSv3 has, against the model server's own translation: everything
// that a program may ask for, and what the version cannot do.
#include <sys/stat.h>

#include <cerrno>

#include "support/random_value.h"
#include "support/v3_fixture.h"
#include "wire/nfs2/acl.h"

namespace nfsrdma::nfs2 {
namespace {

using namespace testing;
using engine::Access;
using engine::Engine;

const Engine::Creation kMake{0644, false, false}, kMakeNew{0600, true, false};

std::string pattern(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>('a' + i * 7 % 26);
  return out;
}

template <class T>
std::string octets_of(const T& value) {
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, value);
  std::string text;
  for (const std::byte one : flattened(message)) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto code = std::to_integer<unsigned>(one);
    text += kDigits[code / 16];
    text += kDigits[code % 16];
  }
  return text;
}

fhandle handle(unsigned char value) {
  fhandle out{};
  out.fill(std::byte{value});
  return out;
}

const std::string kHandle = "1111111111111111111111111111111111111111111111111111111111111111";

}  // namespace

TEST_CASE("nfs2: what goes over the wire, octet by octet") {
  CHECK(octets_of(handle(0x11)) == kHandle);
  CHECK(octets_of(diropargs{handle(0x11), {"ab"}}) == kHandle + "00000002" + "61620000");
  CHECK(octets_of(sattr()) == "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");
  CHECK(octets_of(readargs{handle(0x11), 1, 2, 3}) == kHandle + "000000010000000200000003");
  writeargs write{handle(0x11), 1, 2, 3, {}};
  const std::string text = "xyz";
  write.data.data = std::as_bytes(std::span(text));
  CHECK(octets_of(write) == kHandle + "000000010000000200000003" + "0000000378797a00");
  CHECK(octets_of(GETACL2args{handle(0x11), 15}) == kHandle + "0000000f");
  SETACL2args set{handle(0x11), {}};
  set.acl.mask = 3;
  set.acl.aclcnt = 1;
  set.acl.acl.value = {{0x20, 0, 4}};
  CHECK(octets_of(set) ==
        kHandle + "0000000300000001" + "00000001000000200000000000000004" + "0000000000000000");
  CHECK(octets_of(linkargs{handle(0x11), {handle(0x11), {"n"}}}) == kHandle + kHandle + "000000016e000000");
  CHECK(octets_of(readdirargs{handle(0x11), 5, 6}) == kHandle + "0000000500000006");
  readdirres list;
  list.emplace<NFS_OK>() = {{{{7, {"n"}, 9}}}, true};
  CHECK(octets_of(list) ==
        "00000000"
        "00000001"
        "00000007"
        "000000016e000000"
        "00000009"
        "00000000"
        "00000001");
  statfsres space;
  space.emplace<NFS_OK>() = {1, 2, 3, 4, 5};
  CHECK(octets_of(space) ==
        "00000000"
        "00000001"
        "00000002"
        "00000003"
        "00000004"
        "00000005");
  attrstat refused;
  (void)refused.select(NFSERR_STALE);
  CHECK(octets_of(refused) == "00000046");
}

TEST_CASE("nfs2: objects of every kind, made, looked at and removed") {
  Scene3 s(2);
  const auto& root = s.root;
  CHECK(s.get(s.engine->make_directory(s.who, root, "d", 0750)).object.attributes->mode == 0750);
  CHECK(s.error(s.engine->make_directory(s.who, root, "d", 0750)) == EEXIST);
  const auto link = s.get(s.engine->make_symlink(s.who, root, "l", "where/it/leads"));
  CHECK(s.get(s.engine->read_link(s.who, link.object.handle)) == "where/it/leads");
  const auto fifo = s.get(s.engine->make_node(s.who, root, "p", FileType::fifo, {}, 0640));
  CHECK(fifo.object.attributes->type == FileType::fifo);
  const auto device = s.get(s.engine->make_node(s.who, root, "c", FileType::character, {5, 7}, 0600));
  CHECK(device.object.attributes->type == FileType::character);
  CHECK(device.object.attributes->device_major == 5);
  CHECK(device.object.attributes->device_minor == 7);
  const auto socket = s.get(s.engine->make_node(s.who, root, "s", FileType::socket, {}, 0600));
  CHECK(socket.object.attributes->type == FileType::socket);
  CHECK(s.error(s.engine->make_node(s.who, root, "p", FileType::fifo, {}, 0640)) == EEXIST);
  (void)s.open("f", kMake);
  const auto file = s.get(s.engine->find(s.who, {root, {"f"}}));
  CHECK(s.get(s.engine->link(s.who, file.handle, root, "g")).object.handle == file.handle);
  CHECK(s.get(s.engine->attributes(s.who, file.handle)).links == 2);
  (void)s.get(s.engine->rename(s.who, root, "g", root, "h", std::nullopt));
  CHECK(s.error(s.engine->find(s.who, {root, {"g"}})) == ENOENT);
  (void)s.get(s.engine->remove(s.who, root, "h", Engine::Removed::file));
  (void)s.get(s.engine->remove(s.who, root, "d", Engine::Removed::directory));
  CHECK(s.error(s.engine->find(s.who, {root, {"d"}})) == ENOENT);
  CHECK(s.get(s.engine->space(s.who, root)).space.total != 0);
  CHECK(s.error(s.engine->find(s.who, {root, {std::string(256, 'n')}})) == ENAMETOOLONG);
  CHECK(s.error(s.engine->make_symlink(s.who, root, "long", std::string(1025, 't'))) == ENAMETOOLONG);
}

TEST_CASE("nfs2: a link's text may have 1024 octets, and no more") {
  Scene3 s(2);
  const std::string longest = pattern(1024);
  const auto link = s.get(s.engine->make_symlink(s.who, s.root, "l", longest));
  CHECK(s.get(s.engine->read_link(s.who, link.object.handle)) == longest);
  s.server.clear_calls();
  CHECK(s.error(s.engine->make_symlink(s.who, s.root, "longer", longest + "x")) == ENAMETOOLONG);
  CHECK(s.server.calls().empty());
}

TEST_CASE("nfs2: data goes in pieces of 8 KiB, is stable at once, and ends where the file does") {
  Scene3 s(2);
  const std::string text = pattern(50'001);
  const auto file = s.open("f", kMake);
  s.server.clear_calls();
  CHECK(ok(s.write(file, text)));
  CHECK(s.server.stable_content("/f") == text);
  CHECK_FALSE(file.file->has_unstable_data());
  std::size_t writes = 0;
  for (const SeenCall& call : s.server.calls()) writes += call.has(nfs4::OP_WRITE) ? 1 : 0;
  CHECK(writes == 7);
  CHECK(s.read(file, 60'000) == text);
  CHECK(s.read(file, 10, 50'000) == text.substr(50'000));
  CHECK(s.read(file, 10, 60'000).empty());
  CHECK(s.read(file, 10, std::uint64_t{1} << 40U).empty());
  s.server.clear_calls();
  CHECK(ok(s.run(file.file->commit(nullptr))));
  CHECK(s.server.calls().empty());
  CHECK(ok(s.run(s.engine->close(file.file))));
}

TEST_CASE("nfs2: files end at 2 GiB less a byte") {
  Scene3 s(2);
  const auto file = s.open("f", kMake);
  CHECK(s.engine->limits().largest_file == kLargestFile);
  CHECK(s.write(file, "x", kLargestFile).error().errno_value() == EFBIG);
  CHECK(ok(s.run(file.file->write(std::as_bytes(std::span("xyz", 3)), {}, kLargestFile - 1,
                                  Stability::unstable, nullptr))));
  SetAttributes changes;
  changes.size = kLargestFile + 1;
  CHECK(s.error(s.engine->set_attributes(s.who, file.object.handle, changes, nullptr)) == EFBIG);
}

TEST_CASE("nfs2: times to the microsecond, or both the server's; what is not set stays") {
  Scene3 s(2);
  const auto file = s.open("f", kMake);
  SetAttributes changes;
  changes.modified = Time{1'000'000, 123'456'789};
  auto now = s.get(s.engine->set_attributes(s.who, file.object.handle, changes, nullptr));
  CHECK(now.modified == Time{1'000'000, 123'456'000});
  CHECK(now.mode == 0644);
  const Time then = now.modified;
  changes = {};
  changes.mode = 0600;
  now = s.get(s.engine->set_attributes(s.who, file.object.handle, changes, nullptr));
  CHECK(now.mode == 0600);
  CHECK(now.modified == then);
  changes = {};
  changes.accessed_now = changes.modified_now = true;
  now = s.get(s.engine->set_attributes(s.who, file.object.handle, changes, nullptr));
  CHECK(now.modified != then);
  CHECK(now.size == 0);
}

TEST_CASE("nfs2: where both times become now they are the server's now, not this machine's") {
  Scene3 s(2);
  const auto file = s.open("f", kMake);
  SetAttributes changes;
  changes.accessed_now = changes.modified_now = true;
  const auto now = s.get(s.engine->set_attributes(s.who, file.object.handle, changes, nullptr));
  const auto later = s.open("g", kMake).object.attributes;
  REQUIRE(later);
  CHECK(now.modified.seconds <= later->modified.seconds);
  CHECK(later->modified.seconds - now.modified.seconds < 60);
}

TEST_CASE("nfs2: a block device is one, with its numbers") {
  Scene3 s(2);
  const auto disk = s.get(s.engine->make_node(s.who, s.root, "b", FileType::block, {8, 1}, 0600));
  REQUIRE(disk.object.attributes);
  CHECK(disk.object.attributes->type == FileType::block);
  CHECK(disk.object.attributes->device_major == 8);
  CHECK(disk.object.attributes->device_minor == 1);
  CHECK(disk.object.attributes->mode == 0600);
  CHECK(s.get(s.engine->find(s.who, {s.root, {"b"}})).attributes->type == FileType::block);
}

TEST_CASE("nfs2: a file is made only where its name is free, by a LOOKUP before") {
  Scene3 s(2);
  const auto made = s.open("f", kMakeNew);
  CHECK(made.object.attributes->mode == 0600);
  CHECK(ok(s.write(made, "text")));
  CHECK(s.error(s.engine->open_at(s.who, s.root, "f", Access::both, kMakeNew)) == EEXIST);
  const auto again = s.open("f", kMake);
  CHECK(s.read(again, 10) == "text");
}

TEST_CASE("nfs2: who may, by the mode") {
  Scene3 s(2);
  s.server.add_file("/f", "text");
  SetAttributes changes;
  changes.mode = 0640;
  changes.uid = 10;
  changes.gid = 20;
  const auto file = s.get(s.engine->find(s.who, {s.root, {"f"}}));
  (void)s.get(s.engine->set_attributes(s.who, file.handle, changes, nullptr));
  const auto rights = [&](const security::Caller& who) {
    return s.get(s.engine->access(who, file.handle, 7)).granted;
  };
  CHECK(rights(user(10, 10)) == 6);
  CHECK(rights(user(11, 20)) == 4);
  CHECK(rights(user(11, 11, {19, 20})) == 4);
  CHECK(rights(user(11, 11)) == 0);
  CHECK(rights(user(0, 0)) == 6);
}

TEST_CASE("nfs2: a listing of many names, page by page") {
  Scene3 s(2);
  constexpr std::size_t kNames = 1500;
  for (std::size_t i = 0; i < kNames; ++i) s.server.add_file("/name-number-" + std::to_string(i), "");
  std::size_t seen = 0;
  std::uint64_t cookie = 0;
  engine::ListVerifier verifier{};
  for (bool end = false; !end;) {
    const auto page = s.get(s.engine->list(s.who, s.root, cookie, verifier));
    seen += page.entries.size();
    end = page.eof;
    verifier = page.verifier;
    REQUIRE((end || !page.entries.empty()));
    if (!page.entries.empty()) cookie = page.entries.back().cookie;
  }
  CHECK(seen == kNames);
}

TEST_CASE("nfs2: no extended attributes") {
  Scene3 s(2);
  CHECK(s.error(s.engine->get_xattr(s.who, s.root, "x")) == EOPNOTSUPP);
}

TEST_CASE("S10 nfs2: an answer that is lost, of a server that remembers calls and of one that does not") {
  for (const std::uint32_t remembers : {1024U, 0U}) {
    CAPTURE(remembers);
    Scene3 s(2);
    s.habits([&](Habits& habits) { habits.recent_calls = remembers; });
    s.server.on_server([](Responder& r) { r.play(Responder::Trick::drop_after, nfs4::OP_CREATE); });
    CHECK(s.get(s.engine->make_directory(s.who, s.root, "d", 0755)).object.attributes->type ==
          FileType::directory);
    s.server.on_server([](Responder& r) { r.play(Responder::Trick::drop_after, nfs4::OP_REMOVE); });
    CHECK(ok(s.run(s.engine->remove(s.who, s.root, "d", Engine::Removed::directory))));
    CHECK(s.error(s.engine->find(s.who, {s.root, {"d"}})) == ENOENT);
  }
}

TEST_CASE("U1 NFSv2: READ and READLINK have Write chunks, WRITE and SYMLINK Read chunks, and nothing else") {
  Scene3 s(2);
  const auto file = s.open("f", kMake);
  CHECK(ok(s.write(file, pattern(8192))));
  (void)s.read(file, 8192);
  const auto link = s.get(s.engine->make_symlink(s.who, s.root, "l", pattern(1000)));
  (void)s.get(s.engine->read_link(s.who, link.object.handle));
  (void)s.get(s.engine->list(s.who, s.root, 0, {}));
  (void)s.get(s.engine->rename(s.who, s.root, "l", s.root, std::string(200, 'n'), std::nullopt));
  bool read = false, written = false;
  for (const SeenCall& call : s.server.calls()) {
    CAPTURE(call.operations());
    const bool may_read = call.has(nfs4::OP_READ) || call.has(nfs4::OP_READLINK);
    const bool may_write = call.has(nfs4::OP_WRITE) || call.operations() == "CREATE";  // CREATE: SYMLINK, too
    CHECK((call.write_chunks.empty() || may_read));
    const bool reduced =
        std::ranges::any_of(call.read_positions, [](std::uint32_t position) { return position != 0; });
    CHECK((!reduced || may_write));
    read = read || (call.has(nfs4::OP_READ) && !call.write_chunks.empty());
    written = written || (call.has(nfs4::OP_WRITE) && reduced);
  }
  CHECK(read);
  CHECK(written);
}

}  // namespace nfsrdma::nfs2
