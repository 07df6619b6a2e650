// The binding of NFSv4 to RPC-over-RDMA (RFC 8267), as the engine's own Calls show it: what is reduced, what
// is provided for each Reply, in which chunk each result goes, what becomes of slots and of leases.
#include <algorithm>
#include <cerrno>

#include "connect/options.h"
#include "support/engine_fixture.h"
#include "support/gamble.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct Binding : Scene {
  /// The only Call that had `op` in it since the last time.
  SeenCall only(nfs_opnum4 op) {
    SeenCall out;
    unsigned count = 0;
    for (const SeenCall& call : server.calls()) {
      if (!call.has(op)) continue;
      out = call;
      ++count;
    }
    CHECK(count == 1);
    server.clear_calls();
    return out;
  }
};

template <class... Op>
void collect(std::tuple<Op...>*, std::vector<std::string>& args, std::vector<std::string>& results) {
  const auto add = [](std::vector<std::string>& to, const char* name, bool eligible) {
    if (eligible) to.emplace_back(name);
  };
  (add(args, Op::name, xdr::bounds<typename Op::Args>.ddp_items != 0), ...);
  (add(results, Op::name, xdr::bounds<typename Op::Res>.ddp_items != 0), ...);
}

/// How many have results with a bound.
template <class... Op>
std::size_t all_bounded(std::tuple<Op...>*) {
  const auto bounded = [](const reply_sizing::ResultSize& size) {
    return size.max_inline != xdr::kUnbounded && size.max_reduced <= size.max_inline ? 1U : 0U;
  };
  return (bounded(reply_sizing::result_size<Op>(typename Op::Args{})) + ...);
}

bool is_reduced(const SeenCall& call) {
  return std::ranges::any_of(call.read_positions, [](std::uint32_t position) { return position != 0; });
}

/// Several READs and READLINKs of one COMPOUND.
struct Several {
  std::string first = std::string(5000, '?'), link = std::string(100, '?'), second = std::string(6000, '?');
  nfsstat4 status = NFS4_OK;
  std::vector<std::size_t> counts;
};

async::Task<Status> all_attributes(EngineClient& c, nfs_fh4 file) {
  Compound compound = c.session.begin("GETATTR");
  compound.add<op::PUTFH>({file});
  compound.add<op::GETATTR>({readable_attributes()});
  auto reply = co_await c.session.call(std::move(compound));
  if (!reply) co_return reply.error();
  if (reply->take<op::PUTFH>() && reply->take<op::GETATTR>()) co_return Status();
  co_return c.session.error_of(*reply, "GETATTR", "");
}

async::Task<Status> read_many(EngineClient& c, OpenFile& file, nfs_fh4 link, std::uint64_t second_at,
                              Several& out) {
  Compound compound = c.session.begin("READ");
  compound.add<op::PUTFH>({file.handle()});
  compound.read(file.stateid(), 0, room(out.first));
  compound.add<op::PUTFH>({link});
  compound.read_link(room(out.link));
  compound.add<op::PUTFH>({file.handle()});
  compound.read(file.stateid(), second_at, room(out.second));
  auto reply = co_await c.session.call(std::move(compound));
  if (!reply) co_return reply.error();
  out.counts.clear();
  READ4res one, two;
  READLINK4res text;
  const auto size = [&](std::size_t n) {
    out.counts.push_back(n);
    return true;
  };
  const bool good = reply->take<op::PUTFH>() && reply->take<op::READ>(one) &&
                    size(one.get<NFS4_OK>()->data.data.size()) && reply->take<op::PUTFH>() &&
                    reply->take<op::READLINK>(text) && size(text.get<NFS4_OK>()->link.data.size()) &&
                    reply->take<op::PUTFH>() && reply->take<op::READ>(two) &&
                    size(two.get<NFS4_OK>()->data.data.size()) && reply->finish();
  out.status = reply->failed_status();
  if (!good && out.status == NFS4_OK) co_return c.session.error_of(*reply, "READ", "");
  co_return Status();
}

}  // namespace

TEST_CASE("U2 nfs4: the types that may be reduced are those of the binding, and no others") {
  std::vector<std::string> args, results;
  collect(static_cast<op::All*>(nullptr), args, results);
  CHECK(args == std::vector<std::string>{"CREATE", "WRITE"});
  CHECK(results == std::vector<std::string>{"READ", "READLINK", "READ_PLUS"});
}

TEST_CASE("U2 nfs4: WRITE data and link texts are reduced, a large extended attribute goes as a Long Call") {
  Binding m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  m.server.clear_calls();
  CHECK(ok(c.run(file->write(bytes(pattern(50'000)), 0))));
  CHECK(is_reduced(m.only(OP_WRITE)));
  const std::string text = pattern(4000);
  CHECK(ok(c.run(c.engine.make_symlink(nullptr, c.root, "l", text))));
  CHECK(is_reduced(m.only(OP_CREATE)));
  const std::vector<std::byte> value(50'000, std::byte{1});
  CHECK(ok(c.run(c.engine.set_xattr(nullptr, file->handle(), "x", value, XattrMode::either))));
  const SeenCall set = m.only(OP_SETXATTR);
  CHECK_FALSE(is_reduced(set));
  CHECK(set.read_positions == std::vector<std::uint32_t>{0});
  CHECK(set.write_chunks.empty());
  // What it gives back has no Write chunk either.
  CHECK(*c.run(c.engine.get_xattr(nullptr, file->handle(), "x")) == value);
  const SeenCall got = m.only(OP_GETXATTR);
  CHECK(got.write_chunks.empty());
  CHECK(got.reply_chunk >= value.size());
  m.close(file);
}

TEST_CASE("U3 nfs4: the largest Reply of every operation has a bound, by its type or by its arguments") {
  CHECK(all_bounded(static_cast<op::All*>(nullptr)) == std::tuple_size_v<op::All>);
}

TEST_CASE("U3 nfs4: every Reply finds room, the largest as well, also at the smallest thresholds") {
  for (const bool announce : {true, false}) {
    CAPTURE(announce);
    Binding m;
    m.server.set_announce(announce);
    m.server.add_file("/f", pattern(3000));
    for (int i = 0; i < 200; ++i) m.server.add_file("/dir/" + pattern(200, static_cast<unsigned>(i)), "");
    m.server.add_symlink("/l", pattern(4096));
    EngineClient& c = m.connect();
    OpenRef file = m.open("f");
    const nfs_fh4 handle = file->handle();
    CHECK(ok(c.run(c.engine.read_link(nullptr, c.handle("/l")))));
    for (const nfs_fh4& one : {handle, c.root}) CHECK(ok(c.run(all_attributes(c, one))));
    CHECK(ok(c.run(c.engine.list(nullptr, c.handle("/dir"), 0, {}))));
    for (int i = 0; i < 40; ++i) {
      const std::string name = pattern(200, static_cast<unsigned>(i)) + std::to_string(i);
      CHECK(ok(c.run(c.engine.set_xattr(nullptr, handle, name, {}, XattrMode::either))));
    }
    CHECK(c.run(c.engine.list_xattrs(nullptr, handle))->size() == 40);
    const std::vector<std::byte> value(65536, std::byte{1});
    CHECK(ok(c.run(c.engine.set_xattr(nullptr, handle, "large", value, XattrMode::either))));
    CHECK(c.run(c.engine.get_xattr(nullptr, handle, "large"))->size() == value.size());
    CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "d", 0755))));
    m.server.lock("/f", 0, 10);
    CHECK(c.run(c.locks.set(file.file(), {1, true, {0, 1}}))->has_value());
    CHECK(c.run(c.locks.test(file.file(), {1, true, {0, 1}}))->has_value());
    CHECK(ok(c.run(c.locks.release(file.file(), 1))));
    m.close(file);
    CHECK(m.server.problems() == "");  // among them: no Reply chunk for a Reply
  }
}

TEST_CASE(
    "U6 nfs4: READ_PLUS has one Write chunk of rpa_count bytes, takes two elements, and asks for the rest") {
  Binding m;
  const std::string data = pattern(60'000);
  m.server.add_file("/f", data);
  for (std::uint64_t at = 0; at < 60'000; at += 10'000) m.server.add_extent("/f", at, at + 5000);
  EngineClient& c = m.connect(ReadPlus::yes);
  OpenRef file = m.open("f");
  m.server.clear_calls();
  std::string got(60'000, '?');
  CHECK(*c.run(file->read(room(got), 0)) == got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const char expected = i % 10'000 < 5000 ? data[i] : '\0';
    if (got[i] != expected) FAIL_CHECK("wrong at " << i);
    if (got[i] != expected) break;
  }
  std::uint64_t left = got.size();
  unsigned count = 0;
  for (const SeenCall& call : m.server.calls()) {
    if (!call.has(OP_READ_PLUS)) continue;
    ++count;
    CHECK(call.write_chunks == std::vector<std::uint64_t>{left});
    // For the data of the second element, and two headers.
    if (left > 4096) CHECK(call.reply_chunk >= left);
    left -= 10'000;
  }
  CHECK(count == 6);
  // At the end of the file.
  CHECK(*c.run(file->read(room(got), 59'000)) == 1000);
  CHECK(*c.run(file->read(room(got), 60'000)) == 0);
  m.close(file);
}

TEST_CASE("U6 nfs4: a READ_PLUS with more than two elements is refused, and one with a gap read by READ") {
  read_plus_res4 three;
  for (std::uint64_t i = 0; i < 3; ++i) {
    three.rpr_contents.value.push_back(read_plus_content::of<NFS4_CONTENT_HOLE>(data_info4{i * 10, 10}));
  }
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, three);
  xdr::Decoder in(message.stream.bytes());
  read_plus_res4 decoded;
  CHECK_FALSE(xdr::decode(in, decoded));

  Binding m;
  m.server.add_file("/f", pattern(60'000));
  m.server.add_extent("/f", 0, 5000);
  EngineClient& c = m.connect(ReadPlus::yes);
  OpenRef file = m.open("f");
  m.server.set_gap(true);
  std::string got(20'000, '?');
  m.server.clear_calls();
  CHECK(*c.run(file->read(room(got), 0)) == got.size());
  CHECK((got == pattern(60'000).substr(0, 20'000)));  // READ knows of no holes here
  CHECK(m.server.count(OP_READ_PLUS) == 2);           // with a Write chunk, and without
  CHECK(c.notices.find("answers READ_PLUS incorrectly") != std::string::npos);
  CHECK(*c.run(file->read(room(got), 0)) == got.size());
  CHECK(m.server.count(OP_READ_PLUS) == 2);
  m.close(file);
}

TEST_CASE("U8 nfs4: call() sends no COMPOUND that changes something and has an answer of any length") {
  Binding m;
  m.server.add_file("/f", "text");
  check_that_gambles_are_refused(m, m.connect());
}

TEST_CASE("U9 nfs4: no Reply chunk exceeds ca_maxresponsesize") {
  Binding m;
  m.server.set_limits(70'000, 12'000, 50);
  m.server.add_file("/f", pattern(9000));
  for (int i = 0; i < 300; ++i) m.server.add_file("/dir/name" + std::to_string(i), "");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  std::string data(9000, '?');
  CHECK(ok(c.run(file->read(room(data), 0))));
  const std::vector<std::byte> value(9000, std::byte{1});
  CHECK(ok(c.run(c.engine.set_xattr(nullptr, file->handle(), "x", value, XattrMode::either))));
  CHECK(ok(c.run(c.engine.get_xattr(nullptr, file->handle(), "x"))));
  CHECK(ok(c.run(c.engine.list_xattrs(nullptr, file->handle()))));
  CHECK(ok(c.run(c.engine.list(nullptr, c.handle("/dir"), 0, {}))));
  m.close(file);
  std::uint64_t most = 0;
  for (const SeenCall& call : m.server.calls()) most = std::max(most, call.reply_chunk);
  CHECK(most > 4096);
  CHECK(most <= 12'000);
}

TEST_CASE(
    "U10 nfs4: Write chunk n is for the n-th reader of a COMPOUND, an empty one for what is wanted inline") {
  Binding m;
  const std::string data = pattern(20'000);
  m.server.add_file("/f", data);
  m.server.add_symlink("/l", "over there");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  const nfs_fh4 link = c.handle("/l");
  m.server.clear_calls();
  Several many;
  CHECK(ok(c.run(read_many(c, *file.file(), link, 7000, many))));
  CHECK(many.counts == std::vector<std::size_t>{5000, 10, 6000});
  CHECK((many.first == data.substr(0, 5000)));
  CHECK(many.link.starts_with("over there"));
  CHECK((many.second == data.substr(7000, 6000)));
  CHECK(m.only(OP_READLINK).write_chunks == std::vector<std::uint64_t>{5000, 0, 6000});
  m.close(file);
}

TEST_CASE("U10 nfs4: a link text of 4 KiB comes inline, in a Long Reply, between READs that have chunks") {
  Binding m;
  const std::string data = pattern(20'000), text = pattern(4096, 3);
  m.server.add_file("/f", data);
  m.server.add_symlink("/l", text);
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  const nfs_fh4 link = c.handle("/l");
  m.server.clear_calls();
  Several many;
  many.link = std::string(4096, '?');
  const std::uint64_t before = c.channel.facts().long_replies;
  CHECK(ok(c.run(read_many(c, *file.file(), link, 7000, many))));
  CHECK(many.counts == std::vector<std::size_t>{5000, 4096, 6000});
  CHECK((many.first == data.substr(0, 5000)));
  CHECK((many.link == text));
  CHECK((many.second == data.substr(7000, 6000)));
  const SeenCall seen = m.only(OP_READLINK);
  CHECK(seen.write_chunks == std::vector<std::uint64_t>{5000, 0, 6000});
  // For the text and what stands around it, and not for the data of the READs.
  CHECK(seen.reply_chunk > text.size());
  CHECK(seen.reply_chunk < text.size() + 1024);
  CHECK(c.channel.facts().long_replies == before + 1);
  m.close(file);
}

TEST_CASE("U11 nfs4: chunks of operations that failed, were not reached or gave less stay unused") {
  Binding m;
  const std::string data = pattern(20'000);
  m.server.add_file("/f", data);
  m.server.add_symlink("/l", "over there");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  const nfs_fh4 link = c.handle("/l");
  Several many;
  m.server.answer(OP_READ, NFS4ERR_IO);  // the first: nothing behind it is reached
  CHECK(ok(c.run(read_many(c, *file.file(), link, 7000, many))));
  CHECK(many.status == NFS4ERR_IO);
  CHECK(many.counts.empty());
  CHECK(many.first == std::string(5000, '?'));
  CHECK(many.second == std::string(6000, '?'));
  m.server.answer(OP_READ, NFS4ERR_IO, 1, 1);  // the second
  CHECK(ok(c.run(read_many(c, *file.file(), link, 7000, many))));
  CHECK(many.status == NFS4ERR_IO);
  CHECK(many.counts == std::vector<std::size_t>{5000, 10});
  CHECK((many.first == data.substr(0, 5000)));
  CHECK(many.second == std::string(6000, '?'));
  // Behind the end of the file: a chunk that is returned with nothing in it.
  CHECK(ok(c.run(read_many(c, *file.file(), link, 30'000, many))));
  CHECK(many.status == NFS4_OK);
  CHECK(many.counts == std::vector<std::size_t>{5000, 10, 0});
  std::string page(8192, '?');
  CHECK(*c.run(file->read(room(page), 30'000)) == 0);
  m.close(file);
}

TEST_CASE("U13 nfs4: callbacks come over the RDMA connection, within the sizes that were announced") {
  Binding m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  const auto created = m.server.last_create_session();
  REQUIRE(created);
  const channel_attrs4& announced = created->csa_back_chan_attrs;
  CHECK(announced.ca_maxrequestsize <= c.channel.facts().reply_threshold - 28);
  CHECK(announced.ca_maxresponsesize <= c.channel.facts().call_threshold - 28);
  CHECK(announced.ca_maxrequests == 4);
  CHECK(m.server.backchannels() == 1);
  OpenRef file = m.open("f");
  m.server.lock("/f", 0, 10);
  auto task = c.locks.wait(file.file(), {1, true, {0, 1}}, nullptr);
  c.start(task);
  c.turn_for(50ms);
  const unsigned locks = m.server.count(OP_LOCK);
  m.server.unlock("/f");  // CB_NOTIFY_LOCK
  REQUIRE(c.turn_until([&] { return task.done(); }, 800ms));
  CHECK(m.server.count(OP_LOCK) == locks + 1);
  CHECK(m.server.connections() == 1);
  CHECK(ok(c.run(c.locks.release(file.file(), 1))));
  m.close(file);
}

TEST_CASE("U14 nfs4: RDMA_ERROR and GARBAGE_ARGS retire the slot, come to the caller, and are not repeated") {
  for (const bool error : {true, false}) {
    CAPTURE(error);
    Binding m;
    EngineClient& c = m.connect();
    m.server.clear_calls();
    if (error) m.server.err_chunk(OP_CREATE);
    if (!error) m.server.garbage_args(OP_CREATE);
    CHECK_FALSE(c.run(c.engine.make_directory(nullptr, c.root, "d", 0755)));
    const SeenCall refused = m.only(OP_CREATE);
    for (int i = 0; i < 5; ++i) {
      CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "d" + std::to_string(i), 0755))));
    }
    for (const SeenCall& call : m.server.calls())
      CHECK(call.sequence.sa_slotid != refused.sequence.sa_slotid);
    CHECK(m.server.count(OP_CREATE_SESSION) == 0);
  }
}

TEST_CASE("U15 nfs4: a credit is left for the SEQUENCE that keeps the lease while calls go unanswered") {
  Binding m;
  m.server.set_lease(1);
  m.server.set_credits(3);
  m.server.add_file("/f", pattern(1000));
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  m.server.hold(OP_READ, false);
  std::vector<std::string> data(4, std::string(100, '?'));
  std::vector<async::Task<Result<std::size_t>>> reads;
  for (std::string& one : data) reads.push_back(file->read(room(one), 0));
  for (auto& one : reads) c.start(one);
  REQUIRE(c.turn_until([&] { return m.server.held() == 2; }));
  m.server.clear_calls();
  CHECK(c.turn_until([&] { return m.server.count(OP_SEQUENCE) >= 2; }, 1500ms));
  m.server.release();
  REQUIRE(
      c.turn_until([&] { return std::ranges::all_of(reads, [](const auto& one) { return one.done(); }); }));
  for (auto& one : reads) CHECK(ok(one.await_resume()));
  m.close(file);
}

TEST_CASE("U15 nfs4: a peer that says nothing is given up in bounded time, and its calls are made again") {
  Binding m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();  // gives a Reply two seconds
  OpenRef file = m.open("f");
  m.server.hold(OP_READ);
  std::string data(4, '?');
  auto task = file->read(room(data), 0);
  const auto begun = c.loop.now();
  c.start(task);
  REQUIRE(c.turn_until([&] { return m.server.connections() == 2; }, 4s));
  CHECK(c.loop.now() - begun >= 1s);
  m.server.release();
  REQUIRE(c.turn_until([&] { return task.done(); }));
  CHECK(ok(task.await_resume()));
  CHECK(data == "text");
  m.close(file);
}

TEST_CASE("U16 nfs4: the port is 20049 unless told otherwise") {
  CHECK(connect::Options().port == 20049);
  const auto plain = connect::parse_target("server:/export");
  REQUIRE(plain);
  CHECK(plain->options.port == 20049);
  const auto url = connect::parse_target("nfs://server/export");
  REQUIRE(url);
  CHECK(url->options.port == 20049);
  CHECK(connect::parse_target("nfs://server:2050/export")->options.port == 2050);
}

}  // namespace nfsrdma
