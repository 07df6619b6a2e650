#include "nfs3/object_operations.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "async/all.h"
#include "async/buggify.h"
#include "async/each.h"
#include "engine/access_bits.h"
#include "wire/nfs3/status.h"

namespace nfsrdma::nfs3 {
namespace {

/// Room for one entry with its attributes and handle, and a name of 4 KiB.
constexpr count3 kLeastPage = 8192;
constexpr count3 kMostPage = 128U << 10;
/// Most pages in a row with nothing but "." and "..".
constexpr int kMostIdlePages = 4;

Listed to_listed(entryplus3& entry) {
  Listed out;
  out.cookie = entry.cookie;
  out.name = std::move(entry.name.value);
  if (entry.name_attributes) {
    out.attributes = to_public(*entry.name_attributes);
    if (entry.name_handle) out.handle = to_public(*entry.name_handle);
  }
  out.attributes.file_id = entry.fileid;
  return out;
}
Listed to_listed(entry3& entry) {
  Listed out;
  out.cookie = entry.cookie;
  out.name = std::move(entry.name.value);
  out.attributes.file_id = entry.fileid;
  return out;
}

/// Returns the value of type Fail that a refusal carries; an empty one if the call was not refused.
template <class Fail, class Res>
Fail told_by_failure(const Res& res) {
  Fail out{};
  res.visit([&out](const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Fail>) out = value;
  });
  return out;
}

bool is_itself(const std::string& name) {
  return name == "." || name == "..";
}

diropargs3 place(const FileHandle& directory, const std::string& name) {
  diropargs3 out;
  out.dir = to_wire(directory);
  out.name.value = name;
  return out;
}

}  // namespace

Error unsupported(const char* what, std::string peer) {
  return {ErrorKind::server, EOPNOTSUPP, what, std::move(peer),
          "NFSv3 and NFSv2 have no such operation; mount with vers=4.2 if the server supports it"};
}

Error above_error(const std::string& text) {
  return {ErrorKind::server, EROFS, "", text,
          "this directory only lists the server's exports; use a path inside an export"};
}

ObjectOperations::ObjectOperations(ProcedureCalls& calls, Roots& roots, unsigned version)
    : calls_(calls), dialect_(calls, version), roots_(roots) {}

// ---- finding ----

async::Task<Result<ObjectOperations::Looked>> ObjectOperations::lookup(Caller caller, FileHandle directory,
                                                                       std::string name, std::string text) {
  LOOKUP3args args;
  args.what = place(directory, name);
  auto answer = co_await ask<proc::LOOKUP>(std::move(caller), std::move(args));
  if (!answer) co_return answer.error();
  Looked out;
  if (const LOOKUP3resok* ok = answer->res.get<NFS3_OK>()) {
    saw(directory, ok->dir_attributes);
    out.directory = to_public(ok->dir_attributes);
    out.object = Object{to_public(ok->object), to_public(ok->obj_attributes)};
    co_return std::move(out);
  }
  if (answer->res.tag() != NFS3ERR_NOENT) co_return status_error(answer->res.tag(), "LOOKUP", text);
  const auto fail = told_by_failure<post_op_fail>(answer->res);
  saw(directory, fail.attributes);
  out.directory = to_public(fail.attributes);
  co_return std::move(out);
}

async::Task<Result<Object>> ObjectOperations::walk(Caller caller, Spot spot) {
  if (spot.from && Above::is_one(*spot.from)) {
    Above::Names names = above_.names(*spot.from);
    names.insert(names.end(), spot.names.begin(), spot.names.end());
    spot = Spot(std::nullopt, std::move(names));
  }
  Object at;
  std::size_t first = 0;
  std::optional<FileHandle> root;
  if (spot.from) {
    at.handle = *spot.from;
  } else {
    auto found = co_await roots_.find(spot.names);
    if (!found) co_return found.error();
    if (found->handle.length == 0) co_return above_.object(spot.names);
    root = at.handle = found->handle;
    first = found->names;
    if (!knows_limits_) (void)co_await learn_limits(found->handle);
  }
  Spot done(spot.from, {});
  done.names.assign(spot.names.begin(), spot.names.begin() + static_cast<std::ptrdiff_t>(first));
  for (std::size_t i = first; i < spot.names.size(); ++i) {
    const std::string text = done.text(spot.names[i]);
    auto looked = co_await lookup(caller, at.handle, spot.names[i], text);
    if (!looked) {
      // The server's exports have changed since it was asked for the root.
      if (root && i == first && looked.error().status() == NFS3ERR_STALE) roots_.forget(*root);
      co_return looked.error();
    }
    if (!looked->object) co_return status_error(NFS3ERR_NOENT, "LOOKUP", text);
    at = std::move(*looked->object);
    done.names.push_back(spot.names[i]);
  }
  co_return std::move(at);
}

async::Task<Result<FileHandle>> ObjectOperations::handle_of(Caller caller, Spot spot) {
  if (spot.is_handle() && !Above::is_one(*spot.from)) co_return *spot.from;
  const std::string text = spot.text();
  auto found = co_await walk(std::move(caller), std::move(spot));
  if (!found) co_return found.error();
  if (Above::is_one(found->handle)) co_return above_error(text);
  co_return found->handle;
}

async::Task<Result<Object>> ObjectOperations::find(Caller caller, Spot spot) {
  auto found = co_await walk(caller, spot);
  if (!found || found->attributes) co_return found;
  auto now = co_await attributes(std::move(caller), found->handle);
  if (!now) co_return now.error();
  found->attributes = std::move(*now);
  co_return found;
}

async::Task<Result<Object>> ObjectOperations::parent(Caller caller, FileHandle directory) {
  if (Above::is_one(directory)) {
    Above::Names names = above_.names(directory);
    if (!names.empty()) names.pop_back();
    co_return above_.object(names);
  }
  auto looked = co_await lookup(std::move(caller), directory, "..", "..");
  if (!looked) co_return looked.error();
  if (!looked->object) co_return status_error(NFS3ERR_NOENT, "LOOKUP", "..");
  co_return std::move(*looked->object);
}

// ---- attributes ----

async::Task<Result<Attributes>> ObjectOperations::attributes(Caller caller, FileHandle object) {
  if (Above::is_one(object)) co_return *above_.object(above_.names(object)).attributes;
  GETATTR3args args;
  args.object = to_wire(object);
  auto answer = co_await ask<proc::GETATTR>(std::move(caller), args);
  if (!answer) co_return answer.error();
  const GETATTR3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "GETATTR", "");
  if (ok->obj_attributes.type == NF3DIR) saw(object, ok->obj_attributes);
  co_return to_public(ok->obj_attributes);
}

async::Task<Result<Rights>> ObjectOperations::access(Caller caller, Spot spot, unsigned wanted) {
  const std::string text = spot.text();
  auto object = co_await walk(caller, std::move(spot));
  if (!object) co_return object.error();
  if (Above::is_one(object->handle)) co_return Rights{wanted & (R_OK | X_OK), FileType::directory};
  ACCESS3args args;
  args.object = to_wire(object->handle);
  args.access = engine::AccessBits::to_ask(wanted);
  auto answer = co_await ask<proc::ACCESS>(caller, args);
  if (!answer) co_return answer.error();
  const ACCESS3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "ACCESS", text);
  Rights out;
  if (ok->obj_attributes) {
    out.type = to_public(ok->obj_attributes->type);
  } else {
    auto now = co_await attributes(std::move(caller), object->handle);
    if (!now) co_return now.error();
    out.type = now->type;
  }
  out.granted = engine::AccessBits::granted(wanted, out.type, ok->access);
  co_return out;
}

async::Task<Result<std::string>> ObjectOperations::read_link(Caller caller, Spot spot) {
  const std::string label = spot.text();
  auto object = co_await walk(caller, std::move(spot));
  if (!object) co_return object.error();
  if (Above::is_one(object->handle)) co_return status_error(NFS3ERR_INVAL, "READLINK", label);
  std::array<std::byte, kPathMax> text;  // NOLINT: filled by READLINK
  READLINK3args args;
  args.symlink = to_wire(object->handle);
  auto answer = co_await ask<proc::READLINK>(std::move(caller), args, text);
  if (!answer) co_return answer.error();
  if (const READLINK3resok* ok = answer->res.get<NFS3_OK>()) {
    co_return std::string(reinterpret_cast<const char*>(ok->data.data.data()), ok->data.data.size());
  }
  const nfsstat3 status = answer->res.tag();
  const Error refused = status_error(status, "READLINK", label);
  // These statuses also mean that the object is not a symbolic link: Linux returns ISDIR for a directory.
  if (status != NFS3ERR_NOTSUPP && status != NFS3ERR_BADTYPE && status != NFS3ERR_ISDIR) co_return refused;
  co_return Error(ErrorKind::server, EINVAL, refused.status(), refused.operation(), refused.peer(),
                  refused.message());
}

async::Task<Result<Space>> ObjectOperations::space(Caller caller, Spot spot) {
  const std::string text = spot.text();
  auto object = co_await walk(caller, std::move(spot));
  if (!object) co_return object.error();
  const FileHandle handle = object->handle;
  Space out;
  out.longest_name = limits_.longest_name;
  if (Above::is_one(handle)) {
    // All sizes are 0, as in a pseudo file system.
    out.type = FileType::directory;
    co_return out;
  }
  FSSTAT3args args;
  args.fsroot = to_wire(handle);
  auto answer = co_await ask<proc::FSSTAT>(caller, args);
  if (!answer) co_return answer.error();
  const FSSTAT3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "FSSTAT", text);
  if (ok->obj_attributes) {
    out.type = to_public(ok->obj_attributes->type);
  } else {
    auto now = co_await attributes(std::move(caller), handle);
    if (now) out.type = now->type;
  }
  out.space = {ok->tbytes, ok->fbytes, ok->abytes, ok->tfiles, ok->ffiles, ok->afiles};
  co_return out;
}

async::Task<Status> ObjectOperations::learn_limits(FileHandle object) {
  Status of_files, of_names;
  async::Each both(loop(), 2, [&](std::size_t i) {
    return i == 0 ? ask_fsinfo(object, of_files) : ask_pathconf(object, of_names);
  });
  co_await both.run(2);
  co_return of_files ? of_names : of_files;
}

async::Task<void> ObjectOperations::ask_fsinfo(FileHandle object, Status& outcome) {
  FSINFO3args args;
  args.fsroot = to_wire(object);
  auto answer = co_await ask<proc::FSINFO>(nullptr, args);
  const FSINFO3resok* const info = answer ? answer->res.get<NFS3_OK>() : nullptr;
  if (!answer) outcome = answer.error();
  if (answer && info == nullptr) outcome = status_error(answer->res.tag(), "FSINFO", "");
  if (info == nullptr) co_return;
  knows_limits_ = true;
  const auto fit = [](std::uint32_t& ours, std::uint32_t theirs) {
    if (theirs != 0) ours = std::min(ours, theirs);
  };
  fit(limits_.most_read, info->rtmax);
  fit(limits_.most_written, info->wtmax);
  limits_.page = std::clamp(info->dtpref, kLeastPage, kMostPage);
  if (info->maxfilesize != 0) limits_.largest_file = info->maxfilesize;
  const nfstime3& tick = info->time_delta;
  directories_.tick(std::chrono::seconds(tick.seconds) + std::chrono::nanoseconds(tick.nseconds));
}

async::Task<void> ObjectOperations::ask_pathconf(FileHandle object, Status& outcome) {
  PATHCONF3args args;
  args.object = to_wire(object);
  auto answer = co_await ask<proc::PATHCONF>(nullptr, args);
  if (!answer) outcome = answer.error();
  const PATHCONF3resok* const told = answer ? answer->res.get<NFS3_OK>() : nullptr;
  if (told != nullptr && told->name_max != 0) limits_.longest_name = told->name_max;
}

// ---- making ----

async::Task<Result<Made>> ObjectOperations::made(Caller caller, FileHandle directory, std::string name,
                                                 made3resok ok, std::string text) {
  saw(directory, ok.dir_wcc.after);
  Made out;
  out.directory = to_public(ok.dir_wcc.after);
  out.object.attributes = to_public(ok.obj_attributes);
  if (ok.obj) {
    out.object.handle = to_public(*ok.obj);
    co_return std::move(out);
  }
  // A server need not return the handle of an object that it has made (RFC 1813 3.3.8).
  auto looked = co_await lookup(std::move(caller), directory, std::move(name), text);
  if (!looked) co_return looked.error();
  if (!looked->object) co_return status_error(NFS3ERR_NOENT, "LOOKUP", text);
  out.object = std::move(*looked->object);
  co_return std::move(out);
}

template <class P>
async::Task<Result<Made>> ObjectOperations::make(Caller caller, Spot spot, std::string name,
                                                 typename P::Args args, Expected expected) {
  const std::string text = spot.text(name);
  auto directory = co_await handle_of(caller, std::move(spot));
  if (!directory) co_return directory.error();
  args.where = place(*directory, name);
  Doubt doubt;
  doubt.before = directories_.of(*directory, calls_.loop().now());
  auto answer = co_await ask<P>(caller, std::move(args));
  if (!answer) co_return answer.error();
  if (const made3resok* ok = answer->res.template get<NFS3_OK>()) {
    co_return co_await made(std::move(caller), *directory, std::move(name), *ok, text);
  }
  const Error refused = status_error(answer->res.tag(), P::name, text);
  const auto wcc = told_by_failure<wcc_data>(answer->res);
  doubt.sends = answer->sends;
  const bool asks = answer->res.tag() == NFS3ERR_EXIST && may_be_own_effect(doubt, wcc.after);
  saw(*directory, wcc.after);
  if (!asks) co_return refused;
  auto looked = co_await lookup(caller, *directory, name, text);
  if (!looked) co_return unknown_outcome(refused);
  bool mine = looked->object.has_value();
  if (mine)
    mine = co_await engine::is_as_made(*this, std::move(caller), *looked->object, std::move(expected));
  if (!mine) co_return refused;
  co_return Made{std::move(*looked->object), std::move(looked->directory)};
}

async::Task<Result<Made>> ObjectOperations::make_directory(Caller caller, Spot directory, std::string name,
                                                           std::uint32_t mode) {
  MKDIR3args args;
  args.attributes = with_mode(mode);
  const Expected expected{.type = FileType::directory, .mode = mode, .text = {}};
  co_return co_await make<proc::MKDIR>(std::move(caller), std::move(directory), std::move(name),
                                       std::move(args), expected);
}

async::Task<Result<Made>> ObjectOperations::make_file(Caller caller, Spot directory, std::string name,
                                                      std::uint32_t mode) {
  CREATE3args args;
  args.how.emplace<GUARDED>() = with_mode(mode);
  const Expected expected{.type = FileType::regular, .mode = mode, .text = {}};
  co_return co_await make<proc::CREATE>(std::move(caller), std::move(directory), std::move(name),
                                        std::move(args), expected);
}

async::Task<Result<Made>> ObjectOperations::make_symlink(Caller caller, Spot directory, std::string name,
                                                         std::string text) {
  // The text is kept in this task during the call, because DDP-eligible bytes are not copied.
  SYMLINK3args args;
  args.symlink.symlink_data.data = std::as_bytes(std::span(text.data(), text.size()));
  const Expected expected{.type = FileType::symlink, .mode = {}, .text = text};
  co_return co_await make<proc::SYMLINK>(std::move(caller), std::move(directory), std::move(name),
                                         std::move(args), expected);
}

async::Task<Result<Made>> ObjectOperations::make_node(Caller caller, Spot directory, std::string name,
                                                      FileType type, Device device, std::uint32_t mode) {
  const devicedata3 numbers{with_mode(mode), {device.major, device.minor}};
  MKNOD3args args;
  switch (type) {
    case FileType::fifo:
      args.what.emplace<NF3FIFO>() = with_mode(mode);
      break;
    case FileType::socket:
      args.what.emplace<NF3SOCK>() = with_mode(mode);
      break;
    case FileType::character:
      args.what.emplace<NF3CHR>() = numbers;
      break;
    case FileType::block:
      args.what.emplace<NF3BLK>() = numbers;
      break;
    default:
      co_return status_error(NFS3ERR_BADTYPE, "MKNOD", name);
  }
  const Expected expected{.type = type, .mode = mode, .text = {}};
  co_return co_await make<proc::MKNOD>(std::move(caller), std::move(directory), std::move(name),
                                       std::move(args), expected);
}

async::Task<Result<Made>> ObjectOperations::link(Caller caller, Spot object, Spot spot, std::string name) {
  const std::string text = object.text() + " -> " + spot.text(name);
  auto file = co_await handle_of(caller, std::move(object));
  if (!file) co_return file.error();
  auto directory = co_await handle_of(caller, std::move(spot));
  if (!directory) co_return directory.error();
  LINK3args args;
  args.file = to_wire(*file);
  args.link = place(*directory, name);
  Doubt doubt;
  doubt.before = directories_.of(*directory, calls_.loop().now());
  const engine::Modifications::Scope scope(modifications_, {.any = true, .handle = {}});
  auto answer = co_await ask<proc::LINK>(caller, std::move(args));
  if (!answer) co_return answer.error();
  const bool done = answer->res.tag() == NFS3_OK;
  const auto told = told_by_failure<link3wcc>(answer->res);  // a success carries the same type
  doubt.sends = answer->sends;
  const bool asks = answer->res.tag() == NFS3ERR_EXIST && may_be_own_effect(doubt, told.linkdir_wcc.after);
  saw(*directory, told.linkdir_wcc.after);
  Made out{{*file, to_public(told.file_attributes)}, to_public(told.linkdir_wcc.after)};
  if (done) co_return std::move(out);
  const Error refused = status_error(answer->res.tag(), "LINK", text);
  if (!asks) co_return refused;
  auto looked = co_await lookup(std::move(caller), *directory, name, text);
  if (!looked) co_return unknown_outcome(refused);
  if (!looked->object || looked->object->handle != *file) co_return refused;
  co_return Made{std::move(*looked->object), std::move(looked->directory)};
}

// ---- removing and renaming ----

template <class P>
async::Task<Result<std::optional<Attributes>>> ObjectOperations::remove_with(Caller caller, Spot spot,
                                                                             std::string name) {
  const std::string text = spot.text(name);
  auto directory = co_await handle_of(caller, std::move(spot));
  if (!directory) co_return directory.error();
  typename P::Args args;
  args.object = place(*directory, name);
  Doubt doubt;
  doubt.before = directories_.of(*directory, calls_.loop().now());
  const engine::Modifications::Scope scope(modifications_, {.any = true, .handle = {}});
  auto answer = co_await ask<P>(std::move(caller), std::move(args));
  if (!answer) co_return answer.error();
  const bool done = answer->res.tag() == NFS3_OK;
  const wcc_data wcc =
      done ? answer->res.template get<NFS3_OK>()->dir_wcc : told_by_failure<wcc_data>(answer->res);
  doubt.sends = answer->sends;
  const bool was_done = answer->res.tag() == NFS3ERR_NOENT && may_be_own_effect(doubt, wcc.after);
  saw(*directory, wcc.after);
  if (!done && !was_done) co_return status_error(answer->res.tag(), P::name, text);
  co_return to_public(wcc.after);
}

async::Task<Result<std::optional<Attributes>>> ObjectOperations::remove(Caller caller, Spot directory,
                                                                        std::string name, Removed what) {
  if (what == Removed::directory)
    return remove_with<proc::RMDIR>(std::move(caller), std::move(directory), std::move(name));
  return remove_with<proc::REMOVE>(std::move(caller), std::move(directory), std::move(name));
}

async::Task<Result<Renamed>> ObjectOperations::rename(Caller caller, Spot from, std::string old_name, Spot to,
                                                      std::string new_name,
                                                      std::optional<FileHandle> object) {
  const std::string text = from.text(old_name) + " -> " + to.text(new_name);
  auto source = co_await handle_of(caller, std::move(from));
  if (!source) co_return source.error();
  auto target = co_await handle_of(caller, std::move(to));
  if (!target) co_return target.error();
  RENAME3args args;
  args.from = place(*source, old_name);
  args.to = place(*target, new_name);
  Doubt doubt;
  doubt.before = directories_.of(*source, calls_.loop().now());
  const engine::Modifications::Scope scope(modifications_, {.any = true, .handle = {}});
  auto answer = co_await ask<proc::RENAME>(caller, std::move(args));
  if (!answer) co_return answer.error();
  const bool done = answer->res.tag() == NFS3_OK;
  const auto told = told_by_failure<rename3wcc>(answer->res);  // a success carries the same type
  doubt.sends = answer->sends;
  const bool asks = answer->res.tag() == NFS3ERR_NOENT && may_be_own_effect(doubt, told.fromdir_wcc.after);
  saw(*source, told.fromdir_wcc.after);
  saw(*target, told.todir_wcc.after);
  const Renamed out{to_public(told.fromdir_wcc.after), to_public(told.todir_wcc.after)};
  if (done) co_return out;
  const Error refused = status_error(answer->res.tag(), "RENAME", text);
  if (!asks) co_return refused;
  // The old name is gone. If the object has the new name, this call renamed it. Otherwise somebody else, or another call of
  // this client, has removed it under either name, or renamed it.
  auto looked = co_await lookup(std::move(caller), *target, new_name, text);
  const bool made = looked && engine::is_renamed(looked->object, object);
  if (!made) co_return unknown_outcome(refused);
  co_return out;
}

// ---- listing ----

template <class P>
async::Task<Result<Page>> ObjectOperations::list_with(Caller caller, FileHandle directory,
                                                      typename P::Args args) {
  // A page with only "." and ".." is not the end of the directory.
  for (int page = 0; page < kMostIdlePages; ++page) {
    auto answer = co_await ask<P>(caller, args);
    if (!answer) co_return answer.error();
    auto* ok = answer->res.template get<NFS3_OK>();
    if (ok == nullptr) co_return status_error(answer->res.tag(), P::name, "");
    saw(directory, ok->dir_attributes);
    Page out;
    out.directory = directory;
    out.verifier = args.cookieverf = ok->cookieverf;
    out.eof = ok->eof;
    out.entries.reserve(ok->entries.value.size());
    for (auto& entry : ok->entries.value) {
      args.cookie = entry.cookie;
      if (!is_itself(entry.name.value)) out.entries.push_back(to_listed(entry));
    }
    if (!out.entries.empty() || out.eof) co_return std::move(out);
    if (ok->entries.value.empty()) break;
  }
  co_return Error(ErrorKind::protocol, EPROTO, P::name, "",
                  "the server returned neither entries nor the end of the directory; please report this");
}

async::Task<Result<Page>> ObjectOperations::list_once(Caller caller, FileHandle directory,
                                                      std::uint64_t cookie, ListVerifier verifier) {
  const count3 size = async::buggify(calls_.loop()) ? kLeastPage : limits_.page;
  if (!lists_plainly_) {
    READDIRPLUS3args args;
    args.dir = to_wire(directory);
    args.cookie = cookie;
    args.cookieverf = verifier;
    // `dircount` counts the names alone. It gets the same value, so that it does not end a page that still
    // has room.
    args.dircount = args.maxcount = size;
    auto page = co_await list_with<proc::READDIRPLUS>(caller, directory, args);
    if (page || page.error().status() != NFS3ERR_NOTSUPP) co_return page;
    lists_plainly_ = true;
  }
  READDIR3args args;
  args.dir = to_wire(directory);
  args.cookie = cookie;
  args.cookieverf = verifier;
  args.count = size;
  co_return co_await list_with<proc::READDIR>(std::move(caller), directory, args);
}

/// Fetches the attributes of an entry that came without them, as entries of mount points do, and all entries
/// of a server without READDIRPLUS.
async::Task<Status> ObjectOperations::look_at(Caller caller, std::shared_ptr<Page> page, std::size_t index) {
  Listed& entry = page->entries[index];
  auto looked = co_await lookup(caller, page->directory, entry.name, entry.name);
  // The object may be gone by now, or the caller may not look it up: then the entry is listed as it came.
  if (!looked || !looked->object) co_return Status();
  auto now = std::move(looked->object->attributes);
  if (!now) {
    auto asked = co_await attributes(std::move(caller), looked->object->handle);
    if (!asked) co_return Status();
    now = std::move(*asked);
  }
  const std::uint64_t number = entry.attributes.file_id;
  entry.attributes = std::move(*now);
  entry.attributes.file_id = number;
  entry.handle = looked->object->handle;
  co_return Status();
}

/// Lists a directory above the exports, all in one page.
async::Task<Result<Page>> ObjectOperations::list_above(Above::Names names) {
  auto next = co_await roots_.towards_exports(names);
  if (!next) co_return next.error();
  Page out;
  out.directory = above_.object(names).handle;
  out.eof = true;
  for (const std::string& name : *next) {
    Above::Names path = names;
    path.push_back(name);
    auto found = co_await walk(nullptr, Spot(std::nullopt, std::move(path)));
    Listed& entry = out.entries.emplace_back();
    entry.cookie = out.entries.size();
    entry.name = name;
    entry.attributes.type = FileType::directory;
    if (!found) continue;  // not exported to this machine
    entry.handle = found->handle;
    if (found->attributes) entry.attributes = std::move(*found->attributes);
    if (found->attributes) continue;
    auto now = co_await attributes(nullptr, found->handle);
    if (now) entry.attributes = std::move(*now);
  }
  co_return std::move(out);
}

async::Task<Result<Page>> ObjectOperations::list(Caller caller, Spot spot, std::uint64_t cookie,
                                                 ListVerifier verifier) {
  const std::string text = spot.text();
  auto found = co_await walk(caller, std::move(spot));
  if (!found) co_return found.error();
  if (Above::is_one(found->handle)) co_return co_await list_above(above_.names(found->handle));
  const std::optional<FileHandle> directory = found->handle;
  auto page = co_await list_once(caller, *directory, cookie, verifier);
  // The directory has changed, and the server checks the verifier strictly. Cookies usually stay valid, so
  // ask again with a zero verifier, which the server cannot check (RFC 1813 3.3.16).
  if (!page && page.error().status() == NFS3ERR_BAD_COOKIE && verifier != ListVerifier{}) {
    page = co_await list_once(caller, *directory, cookie, ListVerifier{});
  }
  if (page) {
    const auto out = std::make_shared<Page>(std::move(*page));
    std::vector<async::Task<Status>> looks;
    for (std::size_t i = 0; i < out->entries.size(); ++i) {
      if (out->entries[i].attributes.type == FileType::unknown) looks.push_back(look_at(caller, out, i));
    }
    if (!looks.empty()) (void)co_await async::all(calls_.loop(), std::move(looks));
    co_return std::move(*out);
  }
  const Error& refused = page.error();
  if (!refused.peer().empty()) co_return page;
  co_return Error(refused.kind(), refused.errno_value(), refused.status(), refused.operation(), text,
                  refused.message());
}

// ---- operations that NFSv3 does not have ----

async::Task<Result<std::vector<std::byte>>> ObjectOperations::get_xattr(Caller /*caller*/,
                                                                        FileHandle /*object*/,
                                                                        std::string name) {
  co_return unsupported("GETXATTR", std::move(name));
}
async::Task<Status> ObjectOperations::set_xattr(Caller /*caller*/, FileHandle /*object*/, std::string name,
                                                std::vector<std::byte> /*value*/, XattrMode /*mode*/) {
  co_return unsupported("SETXATTR", std::move(name));
}
async::Task<Status> ObjectOperations::remove_xattr(Caller /*caller*/, FileHandle /*object*/,
                                                   std::string name) {
  co_return unsupported("REMOVEXATTR", std::move(name));
}
async::Task<Result<std::vector<std::string>>> ObjectOperations::list_xattrs(Caller /*caller*/,
                                                                            FileHandle /*object*/) {
  co_return unsupported("LISTXATTRS", "");
}

}  // namespace nfsrdma::nfs3
