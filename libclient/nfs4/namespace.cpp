#include "nfs4/namespace.h"

#include <array>
#include <cerrno>

#include "nfs4/file.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// Bytes of entries that one READDIR may bring: a directory of 20,000 in some thirty round trips, in one
/// buffer.
constexpr count4 kReaddirBytes = 128 * 1024;

/// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& type_only() {
  static const bitmap4 map = bitmap_of({FATTR4_TYPE});
  return map;
}

bool is(const Result<Node>& node, nfs_ftype4 type) {
  return node && node->attributes.type == type;
}

}  // namespace

// ---- walking ----

bool Namespace::Walk::take(CompoundReply& reply) const {
  if (from_root ? !reply.take<op::PUTROOTFH>() : !reply.take<op::PUTFH>()) return false;
  for (std::size_t i = 0; i < lookups; ++i) {
    if (!reply.take<op::LOOKUP>()) return false;
  }
  return true;
}

async::Task<Result<Namespace::Walk>> Namespace::begin_at(const Path& path, std::size_t without,
                                                         const char* what) {
  const std::size_t end = path.names().size() - std::min(without, path.names().size());
  std::size_t begin = 0;
  std::optional<nfs_fh4> base;
  if (end > most_lookups()) {
    auto handle = co_await walk_long(path, end);
    if (!handle) co_return handle.error();
    base = *handle;
    begin = end;
  }
  Walk walk{session_.begin(what, caller_), end - begin, !base.has_value()};
  if (base) {
    walk.compound.add<op::PUTFH>({*base});
  } else {
    walk.compound.add<op::PUTROOTFH>();
  }
  for (std::size_t i = begin; i < end; ++i) walk.compound.add<op::LOOKUP>({{path.names()[i]}});
  co_return walk;
}

/// The handle of the directory that the first `count` names lead to, by several COMPOUNDs.
async::Task<Result<nfs_fh4>> Namespace::walk_long(const Path& path, std::size_t count) {
  nfs_fh4 handle;
  for (std::size_t at = 0; at < count;) {
    Compound compound = session_.begin("LOOKUP", caller_);
    const bool from_root = at == 0;
    if (from_root) {
      compound.add<op::PUTROOTFH>();
    } else {
      compound.add<op::PUTFH>({handle});
    }
    const std::size_t lookups = std::min(count - at, most_lookups());
    for (std::size_t i = 0; i < lookups; ++i) compound.add<op::LOOKUP>({{path.names()[at + i]}});
    compound.add<op::GETFH>();
    auto reply = co_await session_.call(std::move(compound));
    if (!reply) co_return reply.error();
    const Walk walk{session_.begin("LOOKUP", caller_), lookups, from_root};
    GETFH4res res;
    if (!walk.take(*reply) || !reply->take<op::GETFH>(res))
      co_return session_.error_of(*reply, "LOOKUP", path.text());
    handle = res.get<NFS4_OK>()->object;
    at += lookups;
  }
  co_return handle;
}

/// Looks at the names one by one until one is a symbolic link, and puts in what it says; from the start again
/// until there is none.
async::Task<Result<bool>> Namespace::canonicalise(Path& path, bool last) {
  bool changed = false;
  for (std::size_t at = 0; at < path.names().size() - (last || path.is_root() ? 0 : 1);) {
    Path prefix = path;
    while (prefix.names().size() > at + 1) prefix = prefix.parent();
    auto walk = co_await begin_at(prefix, 0, "LOOKUP");
    if (!walk) co_return walk.error();
    std::array<std::byte, kLinkText> text;  // NOLINT: filled by READLINK
    walk->compound.read_link(text);
    auto reply = co_await session_.call(std::move(walk->compound));
    if (!reply) co_return reply.error();
    READLINK4res res;
    if (!walk->take(*reply)) {
      // Nothing at the end of the path: nothing to follow. Whoever asked will see, or create it.
      if (reply->failed_status() == NFS4ERR_NOENT && at + 1 == path.names().size()) break;
      co_return session_.error_of(*reply, "LOOKUP", prefix.text());
    }
    if (!reply->take<op::READLINK>(res)) {
      const nfsstat4 status = reply->failed_status();
      if (status != NFS4ERR_INVAL && status != NFS4ERR_WRONG_TYPE && status != NFS4ERR_NOTSUPP) {
        co_return session_.error_of(*reply, "READLINK", prefix.text());
      }
      ++at;  // not a link
      continue;
    }
    const auto& link = res.get<NFS4_OK>()->link.data;
    if (auto done = path.substitute(at, {reinterpret_cast<const char*>(link.data()), link.size()}); !done) {
      co_return done.error();
    }
    changed = true;
    at = 0;
  }
  co_return changed;
}

// ---- finding ----

async::Task<Result<Node>> Namespace::find_once(Path& path, const bitmap4& wanted) {
  Node node;
  bool decoded = true;
  auto done = co_await on_path(
      path, 0, "LOOKUP",
      [&](Compound& compound, const Path&) {
        compound.add<op::GETFH>();
        compound.add<op::GETATTR>({wanted});
      },
      [&](CompoundReply& reply) {
        GETFH4res handle;
        GETATTR4res attributes;
        if (!reply.take<op::GETFH>(handle) || !reply.take<op::GETATTR>(attributes)) return false;
        node.handle = handle.get<NFS4_OK>()->object;
        decoded = decode_attributes(attributes.get<NFS4_OK>()->obj_attributes, node.attributes);
        return true;
      });
  if (!done) co_return done.error();
  if (!decoded) co_return undecodable_attributes(path.text());
  co_return node;
}

async::Task<Result<Node>> Namespace::find(Path path, bool follow, bitmap4 wanted) {
  for (;;) {
    auto node = co_await find_once(path, wanted);
    if (!follow || !is(node, NF4LNK)) co_return node;
    auto changed = co_await canonicalise(path, true);
    if (!changed) co_return changed.error();
  }
}

async::Task<Result<std::string>> Namespace::read_link(Path path) {
  std::array<std::byte, kLinkText> text;  // NOLINT: filled by READLINK
  std::string out;
  auto done = co_await on_path(
      path, 0, "READLINK", [&](Compound& compound, const Path&) { compound.read_link(text); },
      [&](CompoundReply& reply) { return take_link(reply, out); });
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<unsigned>> Namespace::access(Path path, unsigned wanted) {
  auto node = co_await find(path, true, type_only());
  if (!node) co_return node.error();
  const bool directory = is(node, NF4DIR);
  const std::uint32_t write =
      directory ? ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE : ACCESS4_MODIFY | ACCESS4_EXTEND;
  const std::uint32_t execute = directory ? ACCESS4_LOOKUP : ACCESS4_EXECUTE;
  Compound compound = session_.begin("ACCESS", caller_);
  compound.add<op::PUTFH>({node->handle});
  compound.add<op::ACCESS>({ACCESS4_READ | write | execute});
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  ACCESS4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::ACCESS>(res)) {
    co_return session_.error_of(*reply, "ACCESS", path.text());
  }
  const std::uint32_t granted = res.get<NFS4_OK>()->access;
  unsigned bits = 0;
  if ((granted & ACCESS4_READ) != 0) bits |= 4U;
  if ((granted & write) == write) bits |= 2U;
  if ((granted & execute) != 0) bits |= 1U;
  co_return bits& wanted;
}

// ---- listing ----

async::Task<Result<Namespace::Listing>> Namespace::begin_list(Path path, bitmap4 wanted) {
  auto directory = co_await find(path, true, type_only());
  if (!directory) co_return directory.error();
  Listing listing;
  listing.directory = directory->handle;
  listing.path = path.text();
  if (!is(directory, NF4DIR)) co_return status_error(NFS4ERR_NOTDIR, "READDIR", listing.path);
  listing.next.maxcount = std::min(kReaddirBytes, session_.facts().max_response - 512);
  listing.next.dircount = listing.next.maxcount;
  listing.next.attr_request = std::move(wanted);
  co_return listing;
}

async::Task<Result<std::vector<entry4>>> Namespace::list_some(Listing& listing) {
  Compound compound = session_.begin("READDIR", caller_);
  compound.add<op::PUTFH>({listing.directory});
  compound.add<op::READDIR>(listing.next);
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  READDIR4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::READDIR>(res)) {
    co_return session_.error_of(*reply, "READDIR", listing.path);
  }
  auto& ok = *res.get<NFS4_OK>();
  if (listing.circle.closes_with_page(listing.next.cookie, ok.reply.entries.value))
    co_return listing::CookieLoop::error("READDIR", listing.path);
  listing.eof = ok.reply.eof;
  listing.next.cookieverf = ok.cookieverf;
  if (!ok.reply.entries.value.empty()) {
    listing.next.cookie = ok.reply.entries.value.back().cookie;
  } else if (!listing.eof) {
    co_return Error(ErrorKind::protocol, EPROTO, "READDIR", listing.path,
                    "the server gives no entries and no end of the directory; please report this");
  }
  co_return std::move(ok.reply.entries.value);
}

// ---- making, changing and removing ----

async::Task<Status> Namespace::create(Path path, createtype4 type, fattr4 attributes, const char* what) {
  if (path.is_root()) co_return status_error(NFS4ERR_EXIST, what, "/");
  co_return co_await on_path(
      path, 1, what,
      [&](Compound& compound, const Path& at) { compound.add<op::CREATE>({type, {at.last()}, attributes}); },
      [](CompoundReply& reply) { return reply.take<op::CREATE>(); });
}

async::Task<Status> Namespace::make_directory(Path path, std::uint32_t mode) {
  SetAttributes changes;
  changes.mode = mode;
  return create(std::move(path), createtype4::of<NF4DIR>(), encode_changes(changes), "mkdir");
}

async::Task<Status> Namespace::symlink(std::string text, Path created) {
  // The text stays here for as long as the call: DDP-eligible bytes are not copied into the Compound.
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  co_return co_await create(std::move(created), createtype4::of<NF4LNK>(linktext4{bytes}), fattr4{},
                            "symlink");
}

async::Task<Status> Namespace::remove(Path path, bool directory) {
  const char* what = directory ? "rmdir" : "remove";
  if (path.is_root()) co_return status_error(NFS4ERR_ACCESS, what, "/");
  // REMOVE takes either kind (RFC 8881 18.25); the caller said which.
  auto node = co_await find_once(path, type_only());
  if (!node) co_return node.error();
  if (directory && !is(node, NF4DIR)) co_return status_error(NFS4ERR_NOTDIR, what, path.text());
  if (!directory && is(node, NF4DIR)) co_return status_error(NFS4ERR_ISDIR, what, path.text());
  co_return co_await on_path(
      path, 1, what, [](Compound& compound, const Path& at) { compound.add<op::REMOVE>({{at.last()}}); },
      [](CompoundReply& reply) { return reply.take<op::REMOVE>(); });
}

/// RENAME and LINK: a first path, SAVEFH, a second one, the operation.
template <class Op>
async::Task<Status> Namespace::two_paths(Path from, Path to, bool from_parent, typename Op::Args args,
                                         const char* what) {
  const std::string text = from.text() + " -> " + to.text();
  for (;;) {
    Status done;
    auto first = co_await begin_at(from, from_parent ? 1 : 0, what);
    if (first) {
      Compound& compound = first->compound;
      compound.add<op::SAVEFH>();
      const std::size_t names = to.names().size() - 1;
      Walk second{Compound(xdr::Message(), session_.options().credential, 0, what, false), names, true};
      Status walked;
      if (compound.count() + names + 3 > session_.facts().max_operations) {
        // Too long for the same COMPOUND: by the handle of the directory.
        auto handle = co_await walk_long(to, names);
        second.lookups = 0;
        second.from_root = false;
        if (handle) compound.add<op::PUTFH>({*handle});
        if (!handle) walked = handle.error();
      } else {
        compound.add<op::PUTROOTFH>();
        for (std::size_t i = 0; i < names; ++i) compound.add<op::LOOKUP>({{to.names()[i]}});
      }
      done = walked;
      if (walked) {
        compound.add<Op>(args);
        auto reply = co_await session_.call(std::move(compound));
        if (!reply) co_return reply.error();
        if (first->take(*reply) && reply->template take<op::SAVEFH>() && second.take(*reply) &&
            reply->template take<Op>()) {
          co_return Status();
        }
        done = session_.error_of(*reply, what, text);
      }
    } else {
      done = first.error();
    }
    const Error refused = done.error();
    if (!may_be_link(static_cast<nfsstat4>(refused.status()))) co_return refused;
    auto changed = co_await canonicalise(from, false);
    if (!changed) co_return changed.error();
    auto other = co_await canonicalise(to, false);
    if (!other) co_return other.error();
    if (!*changed && !*other) co_return refused;
  }
}

async::Task<Status> Namespace::rename(Path from, Path to) {
  if (from.is_root() || to.is_root()) co_return status_error(NFS4ERR_ACCESS, "rename", "/");
  RENAME4args args{{from.last()}, {to.last()}};
  co_return co_await two_paths<op::RENAME>(std::move(from), std::move(to), true, std::move(args), "rename");
}

async::Task<Status> Namespace::link(Path existing, Path created) {
  if (created.is_root()) co_return status_error(NFS4ERR_EXIST, "link", "/");
  LINK4args args{{created.last()}};
  co_return co_await two_paths<op::LINK>(std::move(existing), std::move(created), false, std::move(args),
                                         "link");
}

async::Task<Status> Namespace::set_attributes(Path path, SetAttributes changes, bool follow) {
  auto node = co_await find(path, follow, type_only());
  if (!node) co_return node.error();
  co_return co_await set_attributes_of(session_, node->handle, stateid4{}, changes, path.text());
}

}  // namespace nfsrdma::nfs4
