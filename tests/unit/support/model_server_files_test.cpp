// The model server's data, full disks, exports, names and listings (RFC 8881 5, 18.3, 18.23, 18.26, 18.32).
#include <doctest/doctest.h>

#include <algorithm>

#include "support/model_fixture.h"

namespace nfsrdma::testing {
namespace {

using namespace nfs4;
using namespace std::chrono_literals;

}  // namespace

// ---- data ----

TEST_CASE("model: data without COMMIT is lost, and the verifier tells") {
  OneClient m;
  const std::uint64_t file = add_file(m.state, "/f", "stable");
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  const auto written = m.client.write(file, open, 3, "unstable", UNSTABLE4);
  CHECK(content_of(m.state, file) == "staunstable");
  CHECK(m.state.inodes.at(file).content.stable() == "stable");
  CHECK(m.state.volatile_bytes() == 8);
  const verifier4 before = written.get<NFS4_OK>()->writeverf;
  SUBCASE("restart") {
    m.state.restart(0s);
  }
  SUBCASE("the storage fails") {
    m.state.fail_writeback();
    const auto commit = m.client.on<op::COMMIT>(file, {0, 0});
    CHECK(commit.get<NFS4_OK>()->writeverf != before);
  }
  CHECK(content_of(m.state, file) == "stable");
  CHECK(m.state.used == 6);
}

TEST_CASE("model: COMMIT of a range, and of all") {
  const auto left_after = [](bool whole) {
    OneClient m(habits_with([&](Habits& h) { h.commits_whole_file = whole; }));
    const std::uint64_t file = add_file(m.state, "/f", "aaaaaaaa");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    (void)m.client.write(file, open, 0, "bbbbbbbb", UNSTABLE4);
    CHECK(status_of(m.client.on<op::COMMIT>(file, {2, 3})) == NFS4_OK);
    return m.state.inodes.at(file).content.stable();
  };
  CHECK(left_after(false) == "aabbbaaa");
  CHECK(left_after(true) == "bbbbbbbb");
}

TEST_CASE("model: a WRITE of NFSv4.0 that comes again while it is being executed is not executed twice") {
  ModelWorld world;
  const std::uint64_t file = add_file(world.state, "/f", "");
  const auto begin = [&world, file](std::uint32_t xid, const std::string& text) {
    const auto data = std::as_bytes(std::span(text.data(), text.size()));
    Request request;
    request.add<op::PUTFH>({handle_of(file)}).add<op::WRITE>({stateid4{}, 0, FILE_SYNC4, {data}});
    Begun out{request.bytes(), nullptr};
    out.bytes[7] = std::byte{0};  // the minor version
    SeenCall seen;
    seen.xid = xid;
    out.execution = world.state.begin(out.bytes, out.bytes.size(), Principal(), seen);
    return out;
  };
  const Begun first = begin(1, "one");
  CHECK(first.execution->stage == Execution::Stage::ready);
  CHECK(begin(1, "one").execution->stage == Execution::Stage::dropped);
  CHECK(Results(*world.state.finish(*first.execution)).status == NFS4_OK);
  const Begun next = begin(2, "two");
  CHECK(Results(*world.state.finish(*next.execution)).status == NFS4_OK);
  const Begun late = begin(1, "one");
  REQUIRE(late.execution->stage == Execution::Stage::answered);
  CHECK(late.execution->answer->replayed);
  CHECK(content_of(world.state, file) == "two");
}

TEST_CASE("model: contents against two plain strings") {
  Chance chance(7);
  for (int round = 0; round < 200; ++round) {
    Content content;
    std::string now, stable;
    const auto grow = [](std::string& text, std::size_t size) { text.resize(std::max(text.size(), size)); };
    for (int step = 0; step < 30; ++step) {
      const std::size_t begin = chance.below(40), end = begin + 1 + chance.below(20);
      const std::string text(end - begin, static_cast<char>('a' + chance.below(26)));
      switch (chance.below(6)) {
        case 0:
          content.write(begin, text, false);
          grow(now, end);
          now.replace(begin, text.size(), text);
          break;
        case 1:
          content.write(begin, text, true);
          for (std::string* one : {&now, &stable}) {
            grow(*one, end);
            one->replace(begin, text.size(), text);
          }
          break;
        case 2:
          content.resize(begin);
          now.resize(begin);
          stable.resize(begin);
          break;
        case 3:
          content.commit(begin, end);
          if (begin < now.size()) {
            grow(stable, std::min(end, now.size()));
            stable.replace(begin, end - begin, now, begin, end - begin);
          }
          break;
        case 4:
          content.punch(begin, end);
          for (std::string* one : {&now, &stable}) {
            for (std::size_t i = begin; i < std::min(end, one->size()); ++i) (*one)[i] = '\0';
          }
          break;
        default:
          if (chance.percent(20)) {
            content.lose();
            now = stable;
          }
          break;
      }
      REQUIRE(content.data() == now);
      REQUIRE(content.stable() == stable);
      for (std::size_t at = 0; at < now.size(); ++at) {
        if (!content.is_data(at)) REQUIRE(now[at] == '\0');
        REQUIRE(content.end_of_piece(at) > at);
      }
    }
  }
}

TEST_CASE("model: a full disk") {
  SUBCASE("a short write first, then none") {
    OneClient m;
    const std::uint64_t file = add_file(m.state, "/f");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    m.state.space = 10;
    CHECK(m.client.write(file, open, 0, "123456789012").get<NFS4_OK>()->count == 10);
    CHECK(status_of(m.client.write(file, open, 10, "x")) == NFS4ERR_NOSPC);
    CHECK(status_of(m.client.write(file, open, 5, "x")) == NFS4_OK);
    CHECK(m.client.call(make_directory("d")).status == NFS4ERR_NOSPC);
    CHECK(status_of(m.client.on<op::SETATTR>(file, {open, size_of(3)})) == NFS4_OK);
    CHECK(m.client.call(make_directory("d")).status == NFS4_OK);
    CHECK(m.state.used == 3);
  }
  SUBCASE("told late, by COMMIT") {
    OneClient m(habits_with([](Habits& h) {
      h.late_no_space = true;
      h.full_status = NFS4ERR_DQUOT;
    }));
    const std::uint64_t file = add_file(m.state, "/f", "old");
    const auto open = ModelClient::stateid(m.client.open("/", "f"));
    m.state.space = 5;
    CHECK(status_of(m.client.write(file, open, 0, "123456789012", UNSTABLE4)) == NFS4_OK);
    CHECK(status_of(m.client.write(file, open, 12, "more", UNSTABLE4)) == NFS4ERR_DQUOT);
    CHECK(content_of(m.state, file) == "old");
    CHECK(status_of(m.client.write(file, open, 0, "123456789012", UNSTABLE4)) == NFS4_OK);
    CHECK(status_of(m.client.on<op::COMMIT>(file, {0, 0})) == NFS4ERR_DQUOT);
    CHECK(content_of(m.state, file) == "old");
    CHECK(status_of(m.client.on<op::COMMIT>(file, {0, 0})) == NFS4_OK);
  }
}

TEST_CASE("model: who is not root clears the set-id bits by writing") {
  OneClient m;
  const std::uint64_t file = add_file(m.state, "/f");
  m.state.inodes.at(file).mode = 06755;
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  CHECK(status_of(m.client.write(file, open, 0, "x")) == NFS4_OK);
  CHECK(m.state.inodes.at(file).mode == 0755);
}

TEST_CASE("model: a request costs little") {
  OneClient m;
  const std::uint64_t file = add_file(m.state, "/f", std::string(1U << 20, 'x'));
  const auto open = ModelClient::stateid(m.client.open("/", "f"));
  // A write to a large file touches what it writes, not all of it: 20,000 of them would be 20 GB.
  for (int i = 0; i < 20000; ++i) (void)m.client.write(file, open, 0, "text", UNSTABLE4);
  CHECK(m.state.volatile_bytes() == 4);
}

// ---- names ----

TEST_CASE("model: exports are file systems of their own") {
  OneClient m;
  m.state.make_export("/one");
  m.state.make_export("/two");
  const std::uint64_t a = add_file(m.state, "/one/f"), b = add_file(m.state, "/two/f");
  const auto attributes = [&](std::uint64_t inode) {
    const auto res =
        m.client.on<op::GETATTR>(inode, {bitmap_of({FATTR4_FSID, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID})});
    WireAttributes out;
    REQUIRE(decode_attributes(res.get<NFS4_OK>()->obj_attributes, out));
    return out;
  };
  CHECK(attributes(a).fileid == attributes(b).fileid);
  CHECK(attributes(a).fsid != attributes(b).fsid);
  const auto root = attributes(m.state.find("/one")->id);
  CHECK(root.fileid != root.mounted_on_fileid);
  CHECK(root.fsid == attributes(a).fsid);
  const auto move = [&](const std::string& from, const std::string& to) {
    return m.client
        .call(Request()
                  .add<op::PUTFH>({handle_of(m.state.find(from)->id)})
                  .add<op::SAVEFH>({})
                  .add<op::PUTFH>({handle_of(m.state.find(to)->id)})
                  .add<op::RENAME>({{"f"}, {"g"}}))
        .status;
  };
  CHECK(move("/one", "/two") == NFS4ERR_XDEV);
  CHECK(move("/one", "/one") == NFS4_OK);
  m.state.pseudo_root_is_read_only = true;
  CHECK(m.client.call(make_directory("d")).status == NFS4ERR_ROFS);
  CHECK(status_of(m.client.create("/one", "new", exclusively(1))) == NFS4_OK);
}

TEST_CASE("model: RENAME keeps to the rules") {
  OneClient m;
  const auto rename = [&](const std::string& from, const std::string& to) {
    return m.client.call(Request().add<op::PUTROOTFH>({}).add<op::SAVEFH>({}).add<op::RENAME>({{from}, {to}}))
        .status;
  };
  const std::uint64_t file = add_file(m.state, "/f", "text");
  add_file(m.state, "/g");
  m.state.make("/d/e", NF4DIR);
  CHECK(rename("f", "d") == NFS4ERR_EXIST);
  CHECK(rename("d", "f") == NFS4ERR_EXIST);
  CHECK(rename("none", "f") == NFS4ERR_NOENT);
  CHECK(rename("f", "f") == NFS4_OK);
  CHECK(rename("f", "g") == NFS4_OK);
  CHECK(m.state.find("/g")->id == file);
  CHECK(m.state.find("/f") == nullptr);
  CHECK(m.state.inodes.at(file).links == 1);
  const Request below = Request()
                            .add<op::PUTROOTFH>({})
                            .add<op::SAVEFH>({})
                            .add<op::PUTFH>({handle_of(m.state.find("/d/e")->id)})
                            .add<op::RENAME>({{"d"}, {"x"}});
  CHECK(m.client.call(below).status == NFS4ERR_INVAL);
  CHECK(m.state.names() == std::vector<std::string>{"/d " + std::to_string(m.state.find("/d")->id),
                                                    "/d/e " + std::to_string(m.state.find("/d/e")->id),
                                                    "/g " + std::to_string(file)});
}

TEST_CASE("model: a listing comes in pages, and its cookies stay what they are when names go") {
  OneClient m(habits_with([](Habits& h) { h.entries_at_once = 2; }));
  for (int i = 0; i < 6; ++i) add_file(m.state, "/f" + std::to_string(i));
  READDIR4args args;
  args.maxcount = 4096;
  args.attr_request = bitmap_of({FATTR4_RDATTR_ERROR, FATTR4_FILEID});
  std::string seen;
  for (;;) {
    const auto page = m.client.on<op::READDIR>("/", args);
    REQUIRE(status_of(page) == NFS4_OK);
    for (const entry4& one : page.get<NFS4_OK>()->reply.entries.value) {
      seen += one.name.value + " ";
      args.cookie = one.cookie;
      CHECK(has_bit(one.attrs.attrmask, FATTR4_RDATTR_ERROR) == m.state.habits.tells_rdattr_error);
    }
    if (page.get<NFS4_OK>()->reply.eof) break;
    if (seen == "f0 f1 ") CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f1"}})) == NFS4_OK);
    if (seen == "f0 f1 ") CHECK(status_of(m.client.on<op::REMOVE>("/", {{"f3"}})) == NFS4_OK);
    m.state.habits.tells_rdattr_error = false;
  }
  CHECK(seen == "f0 f1 f2 f4 f5 ");
  args.maxcount = 20;
  args.cookie = 0;
  CHECK(status_of(m.client.on<op::READDIR>("/", args)) == NFS4ERR_TOOSMALL);
  args.cookie = 1;
  CHECK(status_of(m.client.on<op::READDIR>("/", args)) == NFS4ERR_BAD_COOKIE);
  m.state.habits.checks_cookie_verifier = true;
  args.cookie = 3;
  CHECK(status_of(m.client.on<op::READDIR>("/", args)) == NFS4ERR_NOT_SAME);
}

}  // namespace nfsrdma::testing
