#include "fs/name_checks.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "fs/removal.h"

namespace nfsrdma::fs {

std::shared_ptr<NameChecks::Checks> NameChecks::begin(const Caller& caller, const Inode& inode,
                                                      bool own_place) {
  std::vector<OtherNames::Name> names;
  const auto is_believed = [&](const OtherNames::Name& one) { return loop_.now() < one.until; };
  std::ranges::copy_if(inode.others.all(), std::back_inserter(names), is_believed);
  if (own_place) names.push_back({inode.parent, inode.label, inode.believed_until, inode.found});
  if (names.empty()) return nullptr;
  const auto out = std::make_shared<Checks>(loop_);
  out->under_way = names.size();
  for (OtherNames::Name& one : names)
    background_.spawn(check_name(caller, inodes_.find(inode.id), std::move(one), out));
  return out;
}

/// Errors count as in Engine::open(): a caller that got the file from somebody else may open it even if the caller may not
/// look the name up.
async::Task<void> NameChecks::check_name(Caller caller, std::shared_ptr<const Inode> inode,
                                         OtherNames::Name name, std::shared_ptr<Checks> checks) {
  // The kernel keeps a directory for as long as it knows names in it.
  if (const auto directory = inodes_.find(name.directory)) {
    auto found = co_await find_name(*engine_, std::move(caller), directory->handle, std::move(name.name));
    const bool elsewhere =
        found ? !*found || (*found)->handle != inode->handle : found.error().errno_value() == ESTALE;
    if (elsewhere) checks->wrong.push_back(name.found);
    if (!found && !elsewhere && found.error().kind() != ErrorKind::server) checks->failed = found.error();
  }
  --checks->under_way;
  checks->ended.notify_all();
}

void NameChecks::leads_elsewhere(const std::shared_ptr<Inode>& inode, std::uint64_t found) {
  const OtherNames::Name* const name = inodes_.lead_elsewhere(*inode, found);
  if (name == nullptr) return;
  if (inodes_.believed_at(name->directory, name->name).inode != inode) {
    inodes_.dropped(*inode, found);
  } else if (drop_name_) {
    background_.spawn(drop_name(inode, *name));
  }
}

void NameChecks::has_one_name(const std::shared_ptr<Inode>& inode) {
  std::vector<std::uint64_t> wrong;
  for (const OtherNames::Name& one : inode->others.all()) wrong.push_back(one.found);
  for (const std::uint64_t found : wrong) leads_elsewhere(inode, found);
}

async::Task<void> NameChecks::drop_name(std::shared_ptr<Inode> inode, OtherNames::Name name) {
  co_await drop_name_(name.directory, name.name);
  inodes_.dropped(*inode, name.found);
}

void NameChecks::looked_up(std::uint64_t directory, const std::string& name, const FileHandle* found) {
  if (second_tries_.empty()) return;
  second_tries_.end([&](std::uint64_t id) {
    const auto inode = inodes_.find(id);
    if (!inode) return true;
    if (found != nullptr && inode->handle == *found) return false;
    return inode->is_at(directory, name) || inode->others.find(directory, name) != nullptr;
  });
}

Error NameChecks::refused_by_name(Inode& inode, std::uint32_t thread) {
  for (const OtherNames::Name& one : inode.others.all())
    if (one.is_wrong) lookups_ahead_.drop(one.directory);
  inode.names.doubt();
  second_tries_.refused(thread, inode.id, inode.found, loop_.now());
  return refusal(ESTALE, "open", inode.label, "a name of this file now leads to another file");
}

}  // namespace nfsrdma::fs
