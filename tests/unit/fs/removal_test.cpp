// Names that are taken from open files, by themselves: what the server is asked for, and what is left of it.
#include "fs/removal.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "support/file_parts.h"

namespace nfsrdma::fs::plain {
namespace {

struct Removing : FileParts {
  ~Removing() { loop.drop_tasks(); }
  Removing() = default;
  Removing(const Removing&) = delete;
  Removing& operator=(const Removing&) = delete;

  int error(async::Task<Status> task) {
    const Status done = loop.run(std::move(task));
    return done ? 0 : done.error().errno_value();
  }
  int remove(const std::string& name) { return error(removal.remove_file(nullptr, root(), name)); }
  async::Task<Status> renaming(const std::string& from, const std::string& to) {
    Removal::Renaming what;
    what.source = what.target = root();
    what.old_name = from;
    what.new_name = to;
    return removal.rename(std::move(what));
  }
  int rename(const std::string& from, const std::string& to) { return error(renaming(from, to)); }
  /// As close(2) does.
  void close(const File& file) {
    std::erase(file->inode().open, file.get());
    file->inode().settled.notify_all();
    if (file->inode().open.empty()) loop.run(removal.closed(file->shared_inode()));
  }
  /// Names in the root: those that are hidden as "*".
  std::string names() {
    std::string out;
    for (const auto& [name, id] : engine.nodes[1].names) out += name.starts_with(".nfs") ? "*" : name;
    return out;
  }
  std::uint64_t number(const std::string& name) { return engine.nodes[1].names.at(name); }

  Removal removal{engine, inodes, freshness, counters};
};

}  // namespace

TEST_CASE("F8 removal: an open file gets a hidden name until its last close; others just go") {
  Removing m;
  const auto file = m.open("a"), again = m.open("a");
  const auto as_of = m.freshness.count();
  CHECK(m.remove("a") == 0);
  CHECK(m.take_calls() == "lookup rename");
  CHECK(m.names() == "*");
  CHECK(m.counters.hidden == 1);
  CHECK(m.inodes.at(Inodes::kRoot, "a") == nullptr);
  CHECK(file->inode().attributes.altered_since(as_of));
  m.close(file);
  CHECK(m.names() == "*");
  m.close(again);
  CHECK(m.names().empty());
  m.take_calls();
  // Closed, but the engine still has it open: it is looked up, and removed.
  {
    const auto other = m.open("b");
  }
  CHECK(m.remove("b") == 0);
  CHECK(m.take_calls() == "lookup remove");
}

TEST_CASE("F8 removal: nobody is asked what the name leads to while no file is open") {
  Removing m;
  m.engine.nodes[1].names["a"] = 5;
  m.engine.nodes[5];
  CHECK(m.remove("a") == 0);
  CHECK(m.take_calls() == "remove");
  CHECK(m.error(m.removal.remove_directory(nullptr, m.root(), "a")) == ENOENT);
}

TEST_CASE("F8 removal: what becomes of a name is told to listings, after a refusal that it is still there") {
  Removing m;
  const auto root = m.root();
  root->directory().entries.join();
  const auto then = root->directory().entries.now();
  const auto verdict = [&](const char* name) { return root->directory().entries.judge(name, then); };
  const auto file = m.open("a");
  m.engine.fail("rename", EACCES);
  CHECK(m.remove("a") == EACCES);
  CHECK(verdict("a") == NameChanges::Verdict::doubtful);
  CHECK(m.inodes.at(Inodes::kRoot, "a") != nullptr);
  CHECK_FALSE(file->inode().names.is_hidden());
  CHECK(m.remove("a") == 0);
  CHECK(verdict("a") == NameChanges::Verdict::gone);
  root->directory().entries.leave();
}

TEST_CASE(
    "F8 removal: where the answer was lost the file may have its hidden name, and it goes with the file") {
  Removing m;
  const auto file = m.open("a");
  m.engine.lose("rename", true);
  CHECK(m.remove("a") == ETIMEDOUT);
  CHECK(m.names() == "*");
  CHECK(m.counters.hidden == 0);
  CHECK(m.inodes.at(Inodes::kRoot, "a") == nullptr);  // nothing is believed of it
  CHECK_FALSE(file->inode().names.is_hidden());       // nor is this
  m.close(file);
  CHECK(m.names().empty());
}

TEST_CASE("F8 removal: another link of a hidden file just goes") {
  Removing m;
  const auto file = m.open("a");
  m.engine.nodes[1].names["b"] = m.number("a");
  CHECK(m.remove("a") == 0);
  m.take_calls();
  CHECK(m.remove("b") == 0);
  CHECK(m.take_calls() == "lookup remove");
  CHECK(m.names() == "*");
}

TEST_CASE("F8 removal: a name of an open file that keeps another one just goes") {
  Removing m;
  m.engine.tells = true;
  const auto file = m.open("a"), other = m.open("c");
  m.engine.nodes[1].names["b"] = m.number("a");
  const auto as_of = m.freshness.count();
  SUBCASE("removed") {
    CHECK(m.remove("b") == 0);
    CHECK(m.take_calls() == "lookup remove");
    CHECK(m.names() == "ac");
  }
  SUBCASE("replaced") {
    CHECK(m.rename("c", "b") == 0);
    CHECK(m.take_calls() == "lookup rename");
    CHECK(m.names() == "ab");
    CHECK(m.inodes.at(Inodes::kRoot, "b") == other->shared_inode());
  }
  CHECK(file->inode().attributes.altered_since(as_of));
  CHECK(m.counters.hidden == 0);
  // The other name is the last one, and goes as ever.
  CHECK(m.remove("a") == 0);
  CHECK(m.take_calls() == "lookup rename");
  CHECK(m.counters.hidden == 1);
  m.close(file);
  CHECK(m.names().size() == 1);
}

TEST_CASE("F8 removal: an open file keeps a name when all its names are taken at the same time") {
  Removing m;
  m.engine.tells = true;
  const auto file = m.open("a");
  m.engine.nodes[1].names["b"] = m.number("a");
  auto first = m.removal.remove_file(nullptr, m.root(), "a");
  auto second = m.removal.remove_file(nullptr, m.root(), "b");
  SUBCASE("the server has not executed the first when it tells the second of two links") {
    m.engine.hold("remove");
    m.start(first);
    REQUIRE(m.engine.held("remove") == 1);
    m.start(second);
    m.engine.release("remove");
  }
  SUBCASE("the second hears of two links when the first has ended") {
    m.engine.hold_answer("lookup");
    m.start(second);
    m.start(first);
    REQUIRE(m.engine.held("lookup answer") == 2);
    m.engine.release_one("lookup answer");
    m.turn();
    CHECK(second.done());
    m.engine.release("lookup");
  }
  CHECK(m.finish(first));
  CHECK(m.finish(second));
  CHECK(m.names() == "*");
  m.close(file);
  CHECK(m.names().empty());
}

TEST_CASE("F8 removal: an open file keeps a name where a removal began before any file was open") {
  Removing m;
  m.engine.tells = true;
  {
    const auto made = m.open("a");
    m.engine.nodes[1].names["b"] = m.number("a");
    CHECK(m.error(m.engine.close(made->file())) == 0);
  }
  m.inodes.displace(*m.inodes.at(Inodes::kRoot, "a"));  // the kernel knows it by its other name
  m.engine.hold("remove");
  auto first = m.removal.remove_file(nullptr, m.root(), "a");
  m.start(first);
  REQUIRE(m.take_calls() == "close remove");
  const auto file = m.open("b");
  auto second = m.removal.remove_file(nullptr, m.root(), "b");
  m.start(second);
  m.engine.release("remove");
  CHECK(m.finish(first));
  CHECK(m.finish(second));
  CHECK(m.names() == "*");
  m.close(file);
}

TEST_CASE("F8 removal: a file that is opened again while its last close ends keeps its hidden name") {
  Removing m;
  const auto file = m.open("a");
  CHECK(m.remove("a") == 0);
  std::optional<Removal::Opening> opening;
  opening.emplace(m.removal, file->inode());
  std::erase(file->inode().open, file.get());
  async::Task<void> closed = m.removal.closed(file->shared_inode());
  m.start(closed);
  CHECK_FALSE(closed.done());
  CHECK(m.names() == "*");
  bool opened = true;
  SUBCASE("the open goes well") {
    file->inode().open.push_back(file.get());
  }
  SUBCASE("the open is refused") {
    opened = false;
  }
  opening.reset();
  m.turn();
  REQUIRE(closed.done());
  CHECK(m.names() == (opened ? "*" : ""));
  if (opened) m.close(file);
  CHECK(m.names().empty());
}

TEST_CASE("F8 removal: a hidden name is neither removed nor replaced while the file is open") {
  Removing m;
  const auto file = m.open("a"), other = m.open("b");
  CHECK(m.remove("a") == 0);
  const std::string hidden = m.engine.nodes[1].names.begin()->first;
  REQUIRE(hidden.starts_with(".nfs"));
  m.take_calls();
  CHECK(m.remove(hidden) == EBUSY);
  CHECK(m.rename("b", hidden) == EBUSY);
  CHECK(m.take_calls() == "lookup lookup");
  CHECK(m.names() == "*b");
  m.close(file);
  CHECK(m.names() == "b");
}

TEST_CASE("F8 removal: two clients whose numbers differ in one bit do not hide files by one name") {
  const auto hide_last = [](std::uint64_t number, std::size_t files) {
    Removing m;
    m.engine.client_is = number;
    std::vector<Removing::File> open;
    for (std::size_t i = 0; i < files; ++i) open.push_back(m.open(std::to_string(i)));
    REQUIRE(m.remove(std::to_string(files - 1)) == 0);
    return m.engine.nodes[1].names.begin()->first;
  };
  // The root is inode 1, the files are 2 and 3: these numbers differ as the clients' do.
  const std::string one = hide_last(0x10, 1), other = hide_last(0x11, 2);
  REQUIRE(one.starts_with(".nfs"));
  REQUIRE(other.starts_with(".nfs"));
  CHECK(one != other);
}

TEST_CASE("F8 removal: a hidden file that is given a name again is as any other") {
  Removing m;
  const auto file = m.open("a");
  CHECK(m.remove("a") == 0);
  const std::string hidden = m.engine.nodes[1].names.begin()->first;
  m.inode(file->inode().handle, hidden);  // somebody looks it up
  CHECK(m.rename(hidden, "c") == 0);
  CHECK_FALSE(file->inode().names.is_hidden());
  std::string left;
  SUBCASE("closed") {
    left = "c";
  }
  SUBCASE("removed") {
    CHECK(m.remove("c") == 0);
    CHECK(m.names() == "*");
  }
  m.close(file);
  CHECK(m.names() == left);
}

TEST_CASE("F8 removal: a file whose last close is under way is waited for") {
  Removing m;
  const auto file = m.open("a");
  file->closing = true;
  auto removed = m.removal.remove_file(nullptr, m.root(), "a");
  m.start(removed);
  CHECK_FALSE(removed.done());
  m.close(file);
  CHECK(m.finish(removed));
  CHECK(m.take_calls() == "lookup remove");
}

TEST_CASE("F8 removal: a directory whose last hidden name is just going is removed behind that") {
  Removing m;
  const auto file = m.open("a");
  CHECK(m.remove("a") == 0);
  m.inodes.place(*m.root(), Inodes::kRoot, "r");  // by this name it is to be removed
  m.take_calls();
  m.engine.fail("remove", ENOTEMPTY);
  SUBCASE("not while the file is open") {
    CHECK(m.error(m.removal.remove_directory(nullptr, m.root(), "r")) == ENOTEMPTY);
    CHECK(m.take_calls() == "remove");
  }
  SUBCASE("while it is being closed") {
    file->closing = true;
    auto removed = m.removal.remove_directory(nullptr, m.root(), "r");
    m.start(removed);
    CHECK_FALSE(removed.done());
    CHECK(m.take_calls() == "remove");
    m.close(file);
    const Status done = m.finish(removed);
    REQUIRE_FALSE(done);
    CHECK(done.error().errno_value() == ENOENT);  // the engine has no such name: it was asked again
    CHECK(m.take_calls() == "remove remove");
  }
}

TEST_CASE("F8 removal: a directory whose last hidden name is just going is replaced behind that") {
  for (const int refusal : {EEXIST, ENOTEMPTY}) {
    CAPTURE(refusal);
    Removing m;
    const auto file = m.open("a");
    CHECK(m.remove("a") == 0);
    m.inodes.place(*m.root(), Inodes::kRoot, "r");  // by this name it is to be replaced
    m.engine.nodes[1].names["d"] = 50;
    m.engine.nodes[50].type = FileType::directory;
    m.take_calls();
    m.engine.fail("rename", refusal);
    CHECK(m.rename("d", "r") == refusal);             // the file is open
    CHECK(m.take_calls() == "lookup lookup rename");  // of both names
    m.engine.fail("rename", refusal);
    file->closing = true;
    auto renamed = m.renaming("d", "r");
    m.start(renamed);
    CHECK_FALSE(renamed.done());
    m.close(file);
    CHECK(m.finish(renamed));
    CHECK(m.names() == "r");
  }
}

TEST_CASE("F8 removal: a file that was closed while it got its hidden name loses that at once") {
  Removing m;
  const auto file = m.open("a");
  m.engine.hold("rename");
  auto removed = m.removal.remove_file(nullptr, m.root(), "a");
  m.start(removed);
  m.close(file);
  m.engine.release("rename");
  CHECK(m.finish(removed));
  CHECK(m.names().empty());
}

TEST_CASE("F8 removal: an open file that is replaced has its hidden name first, as a link") {
  Removing m;
  const auto from = m.open("from"), to = m.open("to");
  const auto number = m.number("from");
  SUBCASE("well") {
    CHECK(m.rename("from", "to") == 0);
    CHECK(m.take_calls() == "lookup lookup link rename");
    CHECK(m.names() == "*to");
    CHECK(m.number("to") == number);
    CHECK(m.inodes.at(Inodes::kRoot, "to") == from->shared_inode());
    CHECK(m.counters.hidden == 1);
    m.close(to);
    CHECK(m.names() == "to");
  }
  SUBCASE("refused: nothing has changed") {
    m.engine.fail("rename", EACCES);
    CHECK(m.rename("from", "to") == EACCES);
    CHECK(m.take_calls() == "lookup lookup link rename remove");
    CHECK(m.names() == "fromto");
    CHECK(m.inodes.at(Inodes::kRoot, "from") == from->shared_inode());
    CHECK(m.counters.hidden == 0);
  }
  SUBCASE("the answer is lost: the link stays until the file is closed") {
    m.engine.lose("rename", true);
    CHECK(m.rename("from", "to") == ETIMEDOUT);
    CHECK(m.names() == "*to");
    CHECK(m.inodes.at(Inodes::kRoot, "from") == nullptr);
    CHECK(m.inodes.at(Inodes::kRoot, "to") == nullptr);
    m.close(to);
    CHECK(m.names() == "to");
  }
  SUBCASE("the link's answer is lost: nothing is renamed, and the link goes with the file") {
    m.engine.lose("link", true);
    CHECK(m.rename("from", "to") == ETIMEDOUT);
    CHECK(m.names() == "*fromto");
    CHECK_FALSE(to->inode().names.is_hidden());
    m.close(to);
    CHECK(m.names() == "fromto");
  }
}

TEST_CASE("F8 removal: without links an open file that is replaced is renamed, and back if need be") {
  Removing m;
  const auto from = m.open("from"), to = m.open("to");
  const auto number = m.number("to");
  m.engine.fail("link", EOPNOTSUPP);
  SUBCASE("well") {
    CHECK(m.rename("from", "to") == 0);
    CHECK(m.names() == "*to");
    CHECK(m.take_calls() == "lookup lookup link rename rename");
    m.close(to);
    CHECK(m.names() == "to");
  }
  SUBCASE("in a sticky directory a link might be one that its maker could not remove") {
    Attributes sticky;
    sticky.type = FileType::directory;
    sticky.mode = S_ISVTX | 0777U;
    m.freshness.learn(*m.root(), sticky, m.freshness.count());
    CHECK(m.rename("from", "to") == 0);
    CHECK(m.names() == "*to");
    CHECK(m.take_calls() == "lookup lookup rename rename");
  }
  SUBCASE("and is renamed over nothing if somebody else has just removed it") {
    m.engine.hold("rename");
    auto renamed = m.renaming("from", "to");
    m.start(renamed);
    m.engine.nodes[1].names.erase("to");
    m.engine.release("rename");
    CHECK(m.finish(renamed));
    CHECK(m.names() == "to");
    CHECK(m.number("to") != number);
  }
  SUBCASE("refused") {
    m.engine.hold("rename");
    auto renamed = m.renaming("from", "to");
    m.start(renamed);
    m.engine.release_one("rename");
    m.turn();
    m.engine.nodes[1].names.erase("from");  // by somebody else
    m.engine.release("rename");
    CHECK_FALSE(m.finish(renamed));
    CHECK(m.names() == "to");
    CHECK(m.number("to") == number);
  }
  SUBCASE(
      "refused, and the name is somebody else's by now: the hidden one stays, as the only one that is left") {
    m.engine.hold("rename");
    auto renamed = m.renaming("from", "to");
    m.start(renamed);
    m.engine.release_one("rename");
    m.turn();
    m.engine.nodes[1].names.erase("from");
    m.engine.nodes[1].names["to"] = 99;
    m.engine.nodes[99];
    m.engine.release("rename");
    CHECK_FALSE(m.finish(renamed));
    CHECK(m.names() == "*to");
    CHECK(m.number("to") == 99);
    m.close(to);
    CHECK(m.names() == "*to");
  }
}

TEST_CASE(
    "F8 removal: a file that somebody else has replaced meanwhile is not taken for the one in its place") {
  for (const int code : {ENOENT, ESTALE}) {
    CAPTURE(code);
    Removing m;
    const auto from = m.open("from"), to = m.open("to");
    m.engine.hold("link");
    auto renamed = m.renaming("from", "to");
    m.start(renamed);
    REQUIRE(m.engine.held("link") == 1);
    // Somebody else renames it over the other: that has no name any more, and cannot be linked.
    const std::uint64_t moved = m.number("from");
    m.engine.nodes[1].names.erase("from");
    m.engine.nodes[1].names["to"] = moved;
    m.engine.fail("link", code);
    m.engine.release("link");
    CHECK_FALSE(m.finish(renamed));
    CHECK(m.take_calls() == "lookup lookup link rename");
    CHECK(m.names() == "to");
    CHECK(m.number("to") == moved);
    CHECK(m.counters.hidden == 0);
  }
}

TEST_CASE("F8 removal: two links of one file are the server's to leave as they are") {
  Removing m;
  const auto file = m.open("a");
  m.engine.nodes[1].names["b"] = m.number("a");
  m.rename("a", "b");
  CHECK(m.take_calls() == "lookup lookup rename");
  CHECK(m.counters.hidden == 0);
}

TEST_CASE("F2 removal: a rename counts when it begins and when it ends") {
  Removing m;
  const auto root = m.root();
  root->type = FileType::directory;
  const auto before = m.freshness.version(*root);
  m.open("a");
  m.engine.hold("rename");
  auto renamed = m.renaming("a", "b");
  m.start(renamed);
  const auto during = m.freshness.version(*root);
  CHECK(during != before);
  m.engine.release("rename");
  CHECK(m.finish(renamed));
  CHECK(m.freshness.version(*root) != during);
}

TEST_CASE("F5 removal: who found a file gone may look its name up again before the next name goes") {
  FileParts m;
  Retries retries(m.loop);
  auto nobody = retries.let_pass();
  m.start(nobody);
  CHECK(nobody.done());
  retries.expect(7);
  retries.expect(8);
  auto waits = retries.let_pass();
  m.start(waits);
  CHECK_FALSE(waits.done());
  retries.arrived(8);
  retries.arrived(9);
  m.turn();
  CHECK_FALSE(waits.done());
  SUBCASE("it has opened what it found") {
    retries.arrived(7);
    m.turn();
  }
  SUBCASE("it does not come back") {
    m.pass(std::chrono::milliseconds(49));
    CHECK_FALSE(waits.done());
    m.pass(std::chrono::milliseconds(2));
  }
  CHECK(waits.done());
}

}  // namespace nfsrdma::fs::plain
