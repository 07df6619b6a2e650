#include "nfs4/files/object_operations.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "async/buggify.h"
#include "engine/access_bits.h"
#include "nfs4/files/convert.h"
#include "nfs4/files/owners.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

// g++ 12 does not accept a braced list inside a coroutine, so these bitmaps are functions.
const bitmap4& space_attributes() {
  static const bitmap4 map =
      bitmap_of({FATTR4_FSID, FATTR4_FILES_AVAIL, FATTR4_FILES_FREE, FATTR4_FILES_TOTAL, FATTR4_MAXNAME,
                 FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE, FATTR4_SPACE_TOTAL, FATTR4_TYPE});
  return map;
}
const bitmap4& type_only() {
  static const bitmap4 map = bitmap_of({FATTR4_TYPE});
  return map;
}
const bitmap4& entry_attributes() {
  static const bitmap4 map = union_of(
      public_attributes(), bitmap_of({FATTR4_FILEHANDLE, FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID}));
  return map;
}

constexpr count4 kPage = 128U << 10;  // the most bytes of a directory in one Reply
/// Room for one entry with all its attributes.
constexpr count4 kLeastReaddirBytes = 8192;
/// Size of the Reply around a READDIR's entries: the RPC header with the largest verifier, SEQUENCE, PUTFH.
constexpr std::uint32_t kReaddirEnvelope = 512;

bool take_handle(CompoundReply& reply, FileHandle& handle) {
  GETFH4res res;
  if (!reply.take<op::GETFH>(res)) return false;
  handle = res.get<NFS4_OK>()->object;
  return true;
}

/// Takes the handle of a spot: from a GETFH if names were walked, else the spot's own.
bool take_walked(CompoundReply& reply, const Spot& spot, FileHandle& handle) {
  if (!spot.is_handle()) return take_handle(reply, handle);
  handle = *spot.from;
  return true;
}

/// Adds GETFH and GETATTR of an object that must exist.
void add_object(Compound& compound) {
  compound.add<op::GETFH>();
  add_getattr(compound);
}
bool take_object(CompoundReply& reply, Object& out) {
  return take_handle(reply, out.handle) && take_getattr(reply, out.attributes) &&
         reply.failed_status() == NFS4_OK;
}

Listed to_listed(entry4& entry, const WireAttributes& wire, security::Mark mark) {
  Listed out;
  out.cookie = entry.cookie;
  out.name = std::move(entry.name.value);
  // Linux returns NFS4_OK in rdattr_error for a good entry, other servers leave rdattr_error out (RFC 8881
  // 5.8.1.12).
  const bool told = wire.rdattr_error.value_or(NFS4_OK) == NFS4_OK;
  if (told) out.attributes = to_public(wire);
  out.attributes.file_id = wire.fileid ? *wire.fileid : wire.mounted_on_fileid.value_or(0);
  if (told && wire.type) out.handle = wire.filehandle;
  if (out.handle) out.handle->mark = mark;
  return out;
}

}  // namespace

void add_getattr(Compound& compound) {
  compound.add<op::GETATTR>({public_attributes()});
}

bool take_getattr(CompoundReply& reply, std::optional<Attributes>& out) {
  out.reset();
  // The server executes no operation behind a refused one, so there is no result.
  if (reply.failed_status() != NFS4_OK) return true;
  GETATTR4res res;
  if (!reply.take<op::GETATTR>(res)) return reply.failed_status() != NFS4_OK;
  // Attributes that cannot be decoded count as absent, because the operation before them has been executed.
  out = to_public(res.get<NFS4_OK>()->obj_attributes);
  return true;
}

async::Task<Status> ObjectOperations::at_spots(Caller caller, Spots spots, std::string text, const char* what,
                                               async::FunctionRef<void(Compound&)> add,
                                               async::FunctionRef<bool(CompoundReply&)> take) {
  for (;;) {
    auto compound = co_await compound_at(session_, what, caller, spots, add);
    if (!compound) co_return compound.error();
    auto reply = co_await session_.call(std::move(*compound));
    if (!reply) co_return reply.error();
    if (take_walks(*reply, spots) && take(*reply)) co_return Status();
    auto crossed = co_await cross(session_, caller, spots, *reply);
    if (!crossed) co_return crossed.error().about(what, text);
    if (!*crossed) co_return session_.error_of(*reply, what, text);
  }
}

// ---- finding ----

async::Task<Result<Object>> ObjectOperations::find(Caller caller, Spot spot) {
  co_return co_await at<Object>(std::move(caller), spot, "", "LOOKUP", add_object, take_object);
}

async::Task<Result<ObjectOperations::Looked>> ObjectOperations::lookup(Caller caller, Spot directory,
                                                                       std::string name,
                                                                       bool with_attributes) {
  auto looked = co_await at<Looked>(
      caller, directory, name, "LOOKUP",
      [&](Compound& compound) {
        add_getattr(compound);
        compound.add<op::LOOKUP>({{name}});
        compound.add<op::GETFH>();
        if (with_attributes) add_getattr(compound);
      },
      [&](CompoundReply& reply, Looked& out) {
        if (!take_getattr(reply, out.directory)) return false;
        if (!reply.take<op::LOOKUP>()) return reply.failed_status() == NFS4ERR_NOENT;
        Object& object = out.object.emplace();
        return with_attributes ? take_object(reply, object) : take_handle(reply, object.handle);
      });
  if (looked) saw(directory, looked->directory);
  if (!looked && looked.error().status() == NFS4ERR_WRONGSEC)
    co_return co_await lookup_across(std::move(caller), std::move(directory), std::move(name));
  co_return looked;
}

/// Looks up a name for which the server wants another flavour than for the directory.
async::Task<Result<ObjectOperations::Looked>> ObjectOperations::lookup_across(Caller caller, Spot directory,
                                                                              std::string name) {
  const std::string text = directory.text(name);
  auto above = co_await walk(session_, caller, std::move(directory));
  if (!above) co_return above.error();
  auto there = co_await cross_to(session_, caller, *above, std::move(name));
  if (!there) co_return there.error().about("LOOKUP", text);
  auto object = co_await find(std::move(caller), *there);
  if (!object) co_return object.error();
  co_return Looked{std::move(*object), std::nullopt};
}

async::Task<Result<Object>> ObjectOperations::parent(Caller caller, FileHandle directory) {
  for (bool again = true;; again = false) {
    Spot spot(directory);
    auto above = co_await at<Object>(
        caller, spot, "", "LOOKUPP",
        [](Compound& compound) {
          compound.add<op::LOOKUPP>();
          add_object(compound);
        },
        [](CompoundReply& reply, Object& out) {
          return reply.take<op::LOOKUPP>() && take_object(reply, out);
        });
    const bool crosses = again && !above && above.error().status() == NFS4ERR_WRONGSEC;
    if (!crosses) co_return above;
    // The client crossed to this directory from above, where another flavour applies, so try the flavour of
    // the root.
    directory.mark = session_.crossings().root();
  }
}

// ---- attributes ----

async::Task<Result<WireAttributes>> ObjectOperations::getattr(Caller caller, Spot spot,
                                                              const bitmap4& wanted) {
  const std::string text = spot.text();
  auto res = co_await at<GETATTR4res>(
      std::move(caller), spot, "", "GETATTR",
      [&](Compound& compound) { compound.add<op::GETATTR>({wanted}); },
      [](CompoundReply& reply, GETATTR4res& out) { return reply.take<op::GETATTR>(out); });
  if (!res) co_return res.error();
  WireAttributes out;
  if (!decode_attributes(res->get<NFS4_OK>()->obj_attributes, out)) co_return undecodable_attributes(text);
  co_return out;
}

async::Task<Result<Attributes>> ObjectOperations::attributes(Caller caller, FileHandle object) {
  auto got = co_await getattr(std::move(caller), object, public_attributes());
  if (!got) co_return got.error();
  co_return to_public(*got);
}

async::Task<Result<std::optional<Attributes>>> ObjectOperations::set_with_stateid(
    Caller caller, FileHandle object, stateid4 stateid, SetAttributes changes, const writing::Turn& turn) {
  Spot spot(object);
  ids::OwnerNames names;
  for (;;) {
    auto done = co_await at<std::optional<Attributes>>(
        caller, spot, "", "SETATTR",
        [&](Compound& compound) {
          compound.add<op::SETATTR>({stateid, encode_changes(changes, turn, names)});
          add_getattr(compound);
        },
        [](CompoundReply& reply, std::optional<Attributes>& out) {
          return reply.take<op::SETATTR>() && take_getattr(reply, out);
        });
    if (done) co_return done;
    const bool again = co_await wants_names(session_, done.error(), changes, names);
    if (!again) co_return done;
  }
}

async::Task<Result<Rights>> ObjectOperations::access(Caller caller, Spot spot, unsigned wanted) {
  co_return co_await at<Rights>(
      std::move(caller), spot, "", "ACCESS",
      [&](Compound& compound) {
        compound.add<op::ACCESS>({engine::AccessBits::to_ask(wanted)});
        compound.add<op::GETATTR>({type_only()});
      },
      [&](CompoundReply& reply, Rights& out) {
        ACCESS4res res;
        std::optional<Attributes> attributes;
        if (!reply.take<op::ACCESS>(res) || !take_getattr(reply, attributes)) return false;
        if (attributes) out.type = attributes->type;
        const ACCESS4resok& ok = *res.get<NFS4_OK>();
        out.granted = engine::AccessBits::granted(wanted, out.type, ok.access, ok.supported);
        return true;
      });
}

async::Task<Result<std::string>> ObjectOperations::read_link(Caller caller, Spot spot) {
  constexpr std::size_t kLinkText = 4096;
  std::array<std::byte, kLinkText> text;  // NOLINT: filled by READLINK
  auto out = co_await at<std::string>(
      std::move(caller), spot, "", "READLINK", [&](Compound& compound) { compound.read_link(text); },
      [](CompoundReply& reply, std::string& link) {
        READLINK4res res;
        if (!reply.take<op::READLINK>(res)) return false;
        const auto& data = res.get<NFS4_OK>()->link.data;
        link.assign(reinterpret_cast<const char*>(data.data()), data.size());
        return true;
      });
  if (out) co_return out;
  const Error refused = out.error();
  switch (refused.status()) {
    case NFS4ERR_WRONG_TYPE:
    case NFS4ERR_NOTSUPP:
      co_return Error(ErrorKind::server, EINVAL, refused.status(), refused.operation(), refused.peer(),
                      refused.message());
    default:
      co_return refused;
  }
}

async::Task<Result<Space>> ObjectOperations::space(Caller caller, Spot spot) {
  auto got = co_await getattr(std::move(caller), std::move(spot), space_attributes());
  if (!got) co_return got.error();
  Space out;
  out.type = to_public(*got).type;
  out.space.total = got->space_total.value_or(0);
  out.space.free = got->space_free.value_or(0);
  out.space.available = got->space_avail.value_or(0);
  out.space.files_total = got->files_total.value_or(0);
  out.space.files_free = got->files_free.value_or(0);
  out.space.files_available = got->files_avail.value_or(0);
  out.longest_name = got->maxname.value_or(out.longest_name);
  co_return out;
}

// ---- directories ----

async::Task<Result<Made>> ObjectOperations::create_once(Caller caller, Spot directory, std::string name,
                                                        createtype4 type, SetAttributes changes,
                                                        const char* what) {
  auto made = co_await at<Made>(
      caller, directory, name, what,
      [&](Compound& compound) {
        compound.add<op::SAVEFH>();
        compound.add<op::CREATE>({type, {name}, encode_changes_but_size(changes)});
        add_object(compound);
        compound.add<op::RESTOREFH>();
        add_getattr(compound);
      },
      [](CompoundReply& reply, Made& out) {
        if (!reply.take<op::SAVEFH>() || !reply.take<op::CREATE>()) return false;
        // The object has been made, whatever the operations behind CREATE return.
        if (take_object(reply, out.object) && reply.take<op::RESTOREFH>())
          (void)take_getattr(reply, out.directory);
        return true;
      });
  if (!made || made->object.handle.length != 0) co_return made;
  auto found = co_await lookup(std::move(caller), directory, name);
  if (!found) co_return found.error();
  if (!found->object) co_return status_error(NFS4ERR_NOENT, what, directory.text(name));
  made->object = std::move(*found->object);
  co_return made;
}

async::Task<Result<Made>> ObjectOperations::make_directory(Caller caller, Spot directory, std::string name,
                                                           std::uint32_t mode) {
  return create(std::move(caller), std::move(directory), std::move(name), createtype4::of<NF4DIR>(),
                with_mode(mode), {}, "mkdir");
}

async::Task<Result<Made>> ObjectOperations::make_symlink(Caller caller, Spot directory, std::string name,
                                                         std::string text) {
  // The text stays here as long as the call, because DDP-eligible bytes are not copied into the Compound.
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  co_return co_await create(std::move(caller), std::move(directory), std::move(name),
                            createtype4::of<NF4LNK>(linktext4{bytes}), SetAttributes(), text, "symlink");
}

async::Task<Result<Made>> ObjectOperations::make_node(Caller caller, Spot directory, std::string name,
                                                      FileType type, Device device, std::uint32_t mode) {
  const specdata4 numbers{device.major, device.minor};
  createtype4 made;
  switch (type) {
    case FileType::fifo:
      made.emplace<NF4FIFO>();
      break;
    case FileType::socket:
      made.emplace<NF4SOCK>();
      break;
    case FileType::character:
      made.emplace<NF4CHR>() = numbers;
      break;
    case FileType::block:
      made.emplace<NF4BLK>() = numbers;
      break;
    default:
      co_return status_error(NFS4ERR_BADTYPE, "mknod", name);
  }
  co_return co_await create(std::move(caller), std::move(directory), std::move(name), made, with_mode(mode),
                            std::string(), "mknod");
}

async::Task<Result<std::optional<Attributes>>> ObjectOperations::remove_once(Caller caller, Spot directory,
                                                                             std::string name) {
  co_return co_await at<std::optional<Attributes>>(
      std::move(caller), directory, name, "remove",
      [&](Compound& compound) {
        compound.add<op::REMOVE>({{name}});
        add_getattr(compound);
      },
      [](CompoundReply& reply, std::optional<Attributes>& out) {
        if (!reply.take<op::REMOVE>()) return false;
        (void)take_getattr(reply, out);
        return true;
      });
}

async::Task<Result<Renamed>> ObjectOperations::rename_once(Caller caller, Spot from, std::string old_name,
                                                           Spot to, std::string new_name) {
  const std::array<Spot*, 2> spots{&from, &to};
  co_return co_await at<Renamed>(
      std::move(caller), spots, from.text(old_name) + " -> " + to.text(new_name), "rename",
      [&](Compound& compound) {
        compound.add<op::RENAME>({{old_name}, {new_name}});
        add_getattr(compound);
        compound.add<op::RESTOREFH>();
        add_getattr(compound);
      },
      [](CompoundReply& reply, Renamed& out) {
        if (!reply.take<op::RENAME>()) return false;
        if (take_getattr(reply, out.target) && reply.take<op::RESTOREFH>())
          (void)take_getattr(reply, out.source);
        return true;
      });
}

async::Task<Result<Made>> ObjectOperations::link_once(Caller caller, Spot object, Spot directory,
                                                      std::string name) {
  const std::array<Spot*, 2> spots{&object, &directory};
  co_return co_await at<Made>(
      std::move(caller), spots, object.text() + " -> " + directory.text(name), "link",
      [&](Compound& compound) {
        compound.add<op::LINK>({{name}});
        add_getattr(compound);
        compound.add<op::RESTOREFH>();
        if (!object.is_handle()) compound.add<op::GETFH>();
        add_getattr(compound);
      },
      [&](CompoundReply& reply, Made& out) {
        if (!reply.take<op::LINK>()) return false;
        // The link is made, whatever becomes of the operations behind it.
        if (object.is_handle()) out.object.handle = *object.from;
        if (take_getattr(reply, out.directory) && reply.take<op::RESTOREFH>() &&
            take_walked(reply, object, out.object.handle)) {
          (void)take_getattr(reply, out.object.attributes);
        }
        return true;
      });
}

async::Task<Result<Page>> ObjectOperations::list(Caller caller, Spot directory, std::uint64_t cookie,
                                                 ListVerifier verifier) {
  bool decoded = true;
  const std::string text = directory.text();
  auto page = co_await at<Page>(
      std::move(caller), directory, "", "READDIR",
      [&](Compound& compound) {
        if (!directory.is_handle()) compound.add<op::GETFH>();
        READDIR4args args;
        args.cookie = cookie;
        args.cookieverf = verifier;
        // The page has room for one entry with all its attributes, but the limit of a Reply comes first.
        args.maxcount = std::min(async::buggify(session_.loop()) ? kLeastReaddirBytes : kPage,
                                 session_.facts().max_response - kReaddirEnvelope);
        args.dircount = args.maxcount;
        args.attr_request = entry_attributes();
        compound.add<op::READDIR>(args);
      },
      [&](CompoundReply& reply, Page& out) {
        READDIR4res res;
        if (!take_walked(reply, directory, out.directory) || !reply.take<op::READDIR>(res)) return false;
        auto& ok = *res.get<NFS4_OK>();
        out.eof = ok.reply.eof;
        out.verifier = ok.cookieverf;
        out.entries.reserve(ok.reply.entries.value.size());
        for (entry4& entry : ok.reply.entries.value) {
          WireAttributes wire;
          decoded = decode_attributes(entry.attrs, wire) && decoded;
          out.entries.push_back(to_listed(entry, wire, reply.mark()));
        }
        return true;
      });
  if (!page) co_return page;
  if (!decoded) co_return undecodable_attributes(text);
  if (page->entries.empty() && !page->eof) {
    co_return Error(ErrorKind::protocol, EPROTO, "READDIR", text,
                    "the server returned neither entries nor the end of the directory; please report this");
  }
  co_return page;
}

}  // namespace nfsrdma::nfs4
