#include "nfs4/objects.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "async/buggify.h"
#include "nfs4/convert.h"
#include "nfs4/types/readdir.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// g++ 12 does not take a braced list inside a coroutine.
const bitmap4& space_attributes() {
  static const bitmap4 map =
      bitmap_of({FATTR4_FSID, FATTR4_FILES_AVAIL, FATTR4_FILES_FREE, FATTR4_FILES_TOTAL, FATTR4_MAXNAME,
                 FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE, FATTR4_SPACE_TOTAL, FATTR4_TYPE});
  return map;
}

/// One entry with all its attributes.
constexpr count4 kLeastReaddirBytes = 8192;
/// What stands around a READDIR's entries: the RPC header with the largest verifier, SEQUENCE, PUTFH.
constexpr std::uint32_t kReaddirEnvelope = 512;

bool wants(const bitmap4& map) {
  return std::ranges::any_of(map.value, [](std::uint32_t word) { return word != 0; });
}

/// GETFH and GETATTR of a node that has to be there.
void add_node(Compound& compound, const bitmap4& wanted) {
  compound.add<op::GETFH>();
  add_getattr(compound, wanted);
}

bool take_node(CompoundReply& reply, const bitmap4& wanted, Node& node) {
  GETFH4res handle;
  if (!reply.take<op::GETFH>(handle)) return false;
  node.handle = handle.get<NFS4_OK>()->object;
  std::optional<WireAttributes> attributes;
  if (!take_getattr(reply, wanted, attributes)) return false;
  if (attributes) node.attributes = std::move(*attributes);
  return true;
}

/// The handle of a spot: from a GETFH where it was walked to.
bool take_walked(CompoundReply& reply, const Spot& spot, nfs_fh4& handle) {
  if (spot.is_handle()) {
    handle = *spot.from;
    return true;
  }
  GETFH4res res;
  if (!reply.take<op::GETFH>(res)) return false;
  handle = res.get<NFS4_OK>()->object;
  return true;
}

}  // namespace

void add_getattr(Compound& compound, const bitmap4& wanted) {
  if (wants(wanted)) compound.add<op::GETATTR>({wanted});
}

bool take_getattr(CompoundReply& reply, const bitmap4& wanted, std::optional<WireAttributes>& out) {
  if (!wants(wanted)) return true;
  // Behind one that was refused there is nothing more.
  if (reply.failed_status() != NFS4_OK) return true;
  GETATTR4res res;
  if (!reply.take<op::GETATTR>(res)) return reply.failed_status() != NFS4_OK;
  WireAttributes attributes;
  // Undecodable: as if they had not come, since what was done is done.
  if (decode_attributes(res.get<NFS4_OK>()->obj_attributes, attributes)) out = std::move(attributes);
  return true;
}

// ---- finding ----

async::Task<Result<Node>> Objects::find(Caller caller, Spot spot, bitmap4 wanted) {
  Node node;
  auto done = co_await at(
      std::move(caller), spot, "", "LOOKUP", [&](Compound& compound) { add_node(compound, wanted); },
      [&](CompoundReply& reply) {
        return take_node(reply, wanted, node) && reply.failed_status() == NFS4_OK;
      });
  if (!done) co_return done.error();
  co_return node;
}

async::Task<Result<Looked>> Objects::lookup(Caller caller, Spot directory, std::string name, Wanted wanted) {
  Looked out;
  Node node;
  bool found = false;
  auto done = co_await at(
      std::move(caller), directory, name, "LOOKUP",
      [&](Compound& compound) {
        add_getattr(compound, wanted.directory);
        compound.add<op::LOOKUP>({{name}});
        add_node(compound, wanted.object);
      },
      [&](CompoundReply& reply) {
        if (!take_getattr(reply, wanted.directory, out.directory)) return false;
        if (!reply.take<op::LOOKUP>()) return reply.failed_status() == NFS4ERR_NOENT;
        found = take_node(reply, wanted.object, node) && reply.failed_status() == NFS4_OK;
        return found;
      });
  if (!done) co_return done.error();
  if (found) out.node = std::move(node);
  co_return out;
}

async::Task<Result<Node>> Objects::lookup_parent(Caller caller, Spot directory, bitmap4 wanted) {
  Node node;
  auto done = co_await at(
      std::move(caller), directory, "", "LOOKUPP",
      [&](Compound& compound) {
        compound.add<op::LOOKUPP>();
        add_node(compound, wanted);
      },
      [&](CompoundReply& reply) {
        return reply.take<op::LOOKUPP>() && take_node(reply, wanted, node) &&
               reply.failed_status() == NFS4_OK;
      });
  if (!done) co_return done.error();
  co_return node;
}

// ---- attributes ----

async::Task<Result<WireAttributes>> Objects::attributes(Caller caller, Spot spot, bitmap4 wanted) {
  WireAttributes out;
  bool decoded = true;
  const std::string text = spot.text();
  auto done = co_await at(
      std::move(caller), spot, "", "GETATTR",
      [&](Compound& compound) { compound.add<op::GETATTR>({wanted}); },
      [&](CompoundReply& reply) {
        GETATTR4res res;
        if (!reply.take<op::GETATTR>(res)) return false;
        decoded = decode_attributes(res.get<NFS4_OK>()->obj_attributes, out);
        return true;
      });
  if (!done) co_return done.error();
  if (!decoded) co_return undecodable_attributes(text);
  co_return out;
}

async::Task<Result<WireAttributes>> Objects::set_attributes(Caller caller, Spot spot, stateid4 stateid,
                                                            SetAttributes changes, bitmap4 wanted) {
  std::optional<WireAttributes> out;
  auto done = co_await at(
      std::move(caller), spot, "", "SETATTR",
      [&](Compound& compound) {
        compound.add<op::SETATTR>({stateid, encode_changes(changes)});
        add_getattr(compound, wanted);
      },
      [&](CompoundReply& reply) { return reply.take<op::SETATTR>() && take_getattr(reply, wanted, out); });
  if (!done) co_return done.error();
  co_return out.value_or(WireAttributes());
}

async::Task<Result<Granted>> Objects::access(Caller caller, Spot spot, std::uint32_t access, bitmap4 wanted) {
  Granted out;
  std::optional<WireAttributes> attributes;
  auto done = co_await at(
      std::move(caller), spot, "", "ACCESS",
      [&](Compound& compound) {
        compound.add<op::ACCESS>({access});
        add_getattr(compound, wanted);
      },
      [&](CompoundReply& reply) {
        ACCESS4res res;
        if (!reply.take<op::ACCESS>(res)) return false;
        out.supported = res.get<NFS4_OK>()->supported;
        out.access = res.get<NFS4_OK>()->access;
        return take_getattr(reply, wanted, attributes);
      });
  if (!done) co_return done.error();
  if (attributes) out.attributes = std::move(*attributes);
  co_return out;
}

async::Task<Result<std::string>> Objects::read_link(Caller caller, Spot spot) {
  constexpr std::size_t kLinkText = 4096;
  std::array<std::byte, kLinkText> text;  // NOLINT: filled by READLINK
  std::string out;
  auto done = co_await at(
      std::move(caller), spot, "", "READLINK", [&](Compound& compound) { compound.read_link(text); },
      [&](CompoundReply& reply) {
        READLINK4res res;
        if (!reply.take<op::READLINK>(res)) return false;
        const auto& link = res.get<NFS4_OK>()->link.data;
        out.assign(reinterpret_cast<const char*>(link.data()), link.size());
        return true;
      });
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<WireAttributes>> Objects::space(Caller caller, Spot spot) {
  return attributes(std::move(caller), std::move(spot), space_attributes());
}

// ---- directories ----

async::Task<Result<Created>> Objects::create_once(Caller caller, Spot directory, std::string name,
                                                  createtype4 type, SetAttributes changes, Wanted wanted,
                                                  const char* what) {
  Created out;
  auto done = co_await at(
      caller, directory, name, what,
      [&](Compound& compound) {
        compound.add<op::SAVEFH>();
        compound.add<op::CREATE>({type, {name}, encode_changes(changes)});
        add_node(compound, wanted.object);
        compound.add<op::RESTOREFH>();
        add_getattr(compound, wanted.directory);
      },
      [&](CompoundReply& reply) {
        CREATE4res res;
        if (!reply.take<op::SAVEFH>() || !reply.take<op::CREATE>(res)) return false;
        out.directory.info = res.get<NFS4_OK>()->cinfo;
        // It is made, whatever is said behind it.
        if (take_node(reply, wanted.object, out.node) && reply.failed_status() == NFS4_OK &&
            reply.take<op::RESTOREFH>()) {
          (void)take_getattr(reply, wanted.directory, out.directory.attributes);
        }
        return true;
      });
  if (!done) co_return done.error();
  if (out.node.handle.length != 0) co_return out;
  auto found = co_await lookup(std::move(caller), directory, name, std::move(wanted));
  if (!found) co_return found.error();
  if (!found->node) co_return status_error(NFS4ERR_NOENT, what, directory.text(name));
  out.node = std::move(*found->node);
  co_return out;
}

async::Task<Result<Created>> Objects::make_directory(Caller caller, Spot directory, std::string name,
                                                     SetAttributes changes, Wanted wanted) {
  return create(std::move(caller), std::move(directory), std::move(name), createtype4::of<NF4DIR>(), changes,
                std::move(wanted), {}, "mkdir");
}

async::Task<Result<Created>> Objects::make_symlink(Caller caller, Spot directory, std::string name,
                                                   std::string text, SetAttributes changes, Wanted wanted) {
  // The text stays here for as long as the call: DDP-eligible bytes are not copied into the Compound.
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  co_return co_await create(std::move(caller), std::move(directory), std::move(name),
                            createtype4::of<NF4LNK>(linktext4{bytes}), changes, std::move(wanted), text,
                            "symlink");
}

async::Task<Result<Created>> Objects::make_node(Caller caller, Spot directory, std::string name,
                                                nfs_ftype4 type, specdata4 device, SetAttributes changes,
                                                Wanted wanted) {
  createtype4 made;
  switch (type) {
    case NF4FIFO:
      made.emplace<NF4FIFO>();
      break;
    case NF4SOCK:
      made.emplace<NF4SOCK>();
      break;
    case NF4CHR:
      made.emplace<NF4CHR>() = device;
      break;
    case NF4BLK:
      made.emplace<NF4BLK>() = device;
      break;
    default:
      co_return status_error(NFS4ERR_BADTYPE, "mknod", name);
  }
  co_return co_await create(std::move(caller), std::move(directory), std::move(name), made, changes,
                            std::move(wanted), std::string(), "mknod");
}

async::Task<Result<DirectoryChange>> Objects::remove_once(Caller caller, Spot directory, std::string name,
                                                          bitmap4 wanted) {
  DirectoryChange out;
  auto done = co_await at(
      std::move(caller), directory, name, "remove",
      [&](Compound& compound) {
        compound.add<op::REMOVE>({{name}});
        add_getattr(compound, wanted);
      },
      [&](CompoundReply& reply) {
        REMOVE4res res;
        if (!reply.take<op::REMOVE>(res)) return false;
        out.info = res.get<NFS4_OK>()->cinfo;
        (void)take_getattr(reply, wanted, out.attributes);
        return true;
      });
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<RenameResult>> Objects::rename_once(Caller caller, Spot from, std::string old_name,
                                                       Spot to, std::string new_name, bitmap4 wanted) {
  RenameResult out;
  const std::string names = from.text(old_name) + " -> " + to.text(new_name);
  auto done = co_await at_both(
      std::move(caller), from, to, names, "rename",
      [&](Compound& compound) {
        compound.add<op::RENAME>({{old_name}, {new_name}});
        add_getattr(compound, wanted);
        compound.add<op::RESTOREFH>();
        add_getattr(compound, wanted);
      },
      [&](CompoundReply& reply) {
        RENAME4res res;
        if (!reply.take<op::RENAME>(res)) return false;
        out.source.info = res.get<NFS4_OK>()->source_cinfo;
        out.target.info = res.get<NFS4_OK>()->target_cinfo;
        if (take_getattr(reply, wanted, out.target.attributes) && reply.failed_status() == NFS4_OK &&
            reply.take<op::RESTOREFH>()) {
          (void)take_getattr(reply, wanted, out.source.attributes);
        }
        return true;
      });
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<Linked>> Objects::link_once(Caller caller, Spot object, Spot directory, std::string name,
                                               Wanted wanted) {
  Linked out;
  const std::string names = object.text() + " -> " + directory.text(name);
  auto done = co_await at_both(
      std::move(caller), object, directory, names, "link",
      [&](Compound& compound) {
        compound.add<op::LINK>({{name}});
        add_getattr(compound, wanted.directory);
        compound.add<op::RESTOREFH>();
        if (!object.is_handle()) compound.add<op::GETFH>();
        add_getattr(compound, wanted.object);
      },
      [&](CompoundReply& reply) {
        LINK4res res;
        if (!reply.take<op::LINK>(res)) return false;
        out.directory.info = res.get<NFS4_OK>()->cinfo;
        if (!take_getattr(reply, wanted.directory, out.directory.attributes) ||
            reply.failed_status() != NFS4_OK || !reply.take<op::RESTOREFH>()) {
          return true;
        }
        if (!take_walked(reply, object, out.handle)) return true;
        (void)take_getattr(reply, wanted.object, out.object);
        return true;
      });
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<DirectoryPage>> Objects::read_directory(Caller caller, Spot directory, nfs_cookie4 cookie,
                                                           verifier4 verifier, bitmap4 wanted,
                                                           std::uint32_t most) {
  DirectoryPage out;
  bool decoded = true;
  const std::string text = directory.text();
  auto done = co_await at(
      std::move(caller), directory, "", "READDIR",
      [&](Compound& compound) {
        if (!directory.is_handle()) compound.add<op::GETFH>();
        READDIR4args args;
        args.cookie = cookie;
        args.cookieverf = verifier;
        // Room for one entry with all its attributes, and no more than a Reply may be, which comes first.
        args.maxcount = std::min(std::max(async::buggify(session_.loop()) ? 0U : most, kLeastReaddirBytes),
                                 session_.facts().max_response - kReaddirEnvelope);
        args.dircount = args.maxcount;
        args.attr_request = wanted;
        compound.add<op::READDIR>(args);
      },
      [&](CompoundReply& reply) {
        if (!take_walked(reply, directory, out.directory)) return false;
        READDIR4res res;
        if (!reply.take<op::READDIR>(res)) return false;
        auto& ok = *res.get<NFS4_OK>();
        out.eof = ok.reply.eof;
        out.verifier = ok.cookieverf;
        out.entries.reserve(ok.reply.entries.value.size());
        for (entry4& entry : ok.reply.entries.value) {
          auto& one = out.entries.emplace_back();
          one.cookie = entry.cookie;
          one.name = std::move(entry.name.value);
          decoded = decode_attributes(entry.attrs, one.attributes) && decoded;
        }
        return true;
      });
  if (!done) co_return done.error();
  if (!decoded) co_return undecodable_attributes(text);
  if (out.entries.empty() && !out.eof) {
    co_return Error(ErrorKind::protocol, EPROTO, "READDIR", text,
                    "the server gives no entries and no end of the directory; please report this");
  }
  co_return out;
}

}  // namespace nfsrdma::nfs4
