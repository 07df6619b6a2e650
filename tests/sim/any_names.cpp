// AnyWorkers rename, link, remove and list.
#include <algorithm>
#include <cerrno>
#include <set>

#include "sim/any_work.h"

namespace nfsrdma::sim {

/// The kernel keeps others from looking a name up while it is being changed. Here they may, so it is forgotten twice.
void AnyWorker::forget_names(const std::vector<std::string>& names) {
  if (kernel() == nullptr) return;
  for (const std::string& name : names) kernel()->forget_name(directory_, name);
}

async::Task<void> AnyWorker::rename() {
  const std::string from = any_name(), to = any_name();
  if (from == to) co_return;
  begin("rename", from + " " + to);
  count_name(Coverage::Operation::rename);
  const Operation operation(commons_.clock);
  NameOracle& source = commons_.name(from);
  NameOracle& target = commons_.name(to);
  const auto moved = source.files(operation.begun());
  for (const std::string& key : target.files(operation.begun())) commons_.unnamed.insert(key);
  commons_.unnamed.insert(moved.begin(), moved.end());
  const auto leaving = source.begin({""});
  const auto coming = target.begin({}, moved);
  commons_.may_lead(to, moved);
  forget_names({from, to});
  auto done = co_await fs().rename(kOwn, directory_, from, directory_, to);
  forget_names({from, to});
  const Outcome outcome = outcome_of(done);
  for (const std::string& key : target.files(operation.begun())) commons_.unnamed.insert(key);
  // What another program is making by one of the names may be there before its maker has said which file it is.
  const bool moved_unknown = source.may_lead_to_unknown(operation.begun());
  const bool replaced_unknown = target.may_lead_to_unknown(operation.begun(), coming);
  // Where both are names of one file nothing is done.
  const auto replaced = target.files(operation.begun());
  const auto is_replaced = [&](const std::string& key) {
    return replaced_unknown || std::ranges::find(replaced, key) != replaced.end();
  };
  const bool may_be_same =
      std::ranges::any_of(moved, is_replaced) || (moved_unknown && (replaced_unknown || !replaced.empty()));
  const bool may_be_missing = source.may_lead_to("", operation.begun(), leaving);
  const bool may_be_another = std::ranges::any_of(
      replaced, [&](const std::string& key) { return std::ranges::find(moved, key) == moved.end(); });
  auto arrived = source.files(operation.begun());
  arrived.insert(arrived.end(), moved.begin(), moved.end());
  source.end(leaving, outcome, {""}, !may_be_same);
  commons_.may_lead(to, arrived);
  if (moved_unknown) arrived.clear();
  target.end(coming, outcome, std::move(arrived), !may_be_same);
  if (done) co_return;
  if (done.error().errno_value() == ENOENT) {
    if (!may_be_missing) wrong(from + " is said not to be there");
    co_return;
  }
  // If the server has forgotten that it made the rename, and the new name leads to nothing or to another file than the one
  // that this client believes the old name to lead to, the client cannot tell whether it was made (RFC 1813 4.8,
  // nfs3/outcome.cpp).
  const bool is_unknown = done.error().kind() == ErrorKind::unknown_outcome;
  if (is_unknown && (may_be_missing || may_be_another || target.may_lead_to("", operation.begun())))
    co_return;
  may_fail("rename", done.error(), "");
}

async::Task<void> AnyWorker::link() {
  const std::string from = any_name(), to = any_name();
  if (from == to) co_return;
  begin("link", from + " " + to);
  count_name(Coverage::Operation::link);
  const Operation operation(commons_.clock);
  NameOracle& source = commons_.name(from);
  NameOracle& target = commons_.name(to);
  const std::uint64_t version = kernel() != nullptr ? kernel()->version() : 0;
  auto found = co_await fs().lookup(kOwn, directory_, from);
  if (kernel() != nullptr && found) {
    kernel()->believe_name(directory_, from, *found);
    co_await kernel()->entered(*found, version);
  }
  if (!found || found->inode == 0) {
    if (!found) may_fail("lookup", found.error(), "");
    co_return;
  }
  // link(2) takes the file that this client believes the name to lead to, as Linux does. The client may have listed the
  // directory, and believe that, without having opened the file; another client may have given the name to another file since.
  const auto believed = commons_.numbers.find(found->attributes.file_id);
  const auto linked_files = [&] {
    return believed != commons_.numbers.end() ? std::vector{believed->second}
                                              : source.files(operation.begun());
  };
  const auto coming = target.begin({}, linked_files());
  commons_.may_lead(to, linked_files());
  const std::uint64_t linked = kernel() != nullptr ? kernel()->version() : 0;
  auto done = co_await fs().link(kOwn, found->inode, directory_, to);
  if (kernel() != nullptr && done) {
    kernel()->believe_name(directory_, to, *done);
    co_await kernel()->entered(*done, linked);
  }
  if (done) forget(done->inode);
  forget(found->inode);
  const bool may_be_there = target.may_lead_somewhere(operation.begun());
  auto arrived = linked_files();
  commons_.may_lead(to, arrived);
  if (believed == commons_.numbers.end() && source.may_lead_to_unknown(operation.begun())) arrived.clear();
  target.end(coming, done ? Outcome::done : outcome_of(done.error()), std::move(arrived));
  if (done) co_return;
  const int code = done.error().errno_value();
  if (code == EEXIST && may_be_there) co_return;
  // What it led to may be gone by now.
  if (code != ENOENT) may_fail("link", done.error(), "");
}

async::Task<void> AnyWorker::remove() {
  const std::string name = any_name();
  begin("remove", name);
  count_name(Coverage::Operation::remove);
  const Operation operation(commons_.clock);
  NameOracle& names = commons_.name(name);
  for (const std::string& key : names.files(operation.begun())) commons_.unnamed.insert(key);
  const auto change = names.begin({""});
  forget_names({name});
  auto done = co_await fs().remove_file(kOwn, directory_, name);
  forget_names({name});
  for (const std::string& key : names.files(operation.begun())) commons_.unnamed.insert(key);
  names.end(change, outcome_of(done), {""});
  if (done) co_return;
  if (done.error().errno_value() == ENOENT) {
    if (!names.may_lead_to("", operation.begun())) wrong("it is said not to be there");
    co_return;
  }
  may_fail("remove", done.error(), "");
}

async::Task<void> AnyWorker::list() {
  begin("list", "any");
  count_name(Coverage::Operation::list);
  const Operation operation(commons_.clock);
  auto opened = co_await fs().open_directory(kOwn, directory_, 0);
  if (!opened) {
    may_fail("opendir", opened.error(), "");
    co_return;
  }
  std::multiset<std::string> got;
  for (std::uint64_t cookie = 0;;) {
    auto page = co_await fs().list(*opened, cookie);
    if (!page) {
      may_fail("readdir", page.error(), "");
      co_return;
    }
    if (page->empty()) break;
    for (const fs::Listed& one : *page) {
      if (!fs::FileSystem::is_gone(**opened, one)) got.insert(one.name);
      cookie = one.cookie;
    }
  }
  for (const auto& [name, oracle] : commons_.names) {
    if (!oracle.is_quiet_since(operation.begun())) continue;
    const std::size_t count = got.count(name);
    if (count > 1) wrong(name + " is listed " + std::to_string(count) + " times");
    if (count == 0 && !oracle.may_lead_to("", operation.begun())) wrong(name + " is not listed");
    if (count != 0 && !oracle.may_lead_somewhere(operation.begun()))
      wrong(name + " is listed, and is not there");
  }
}

}  // namespace nfsrdma::sim
