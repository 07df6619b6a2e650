// get, put: which data is moved where, under which name and with which attributes. transfer.h moves it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "cli/changes.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/local.h"
#include "cli/part_file.h"
#include "cli/remote_file.h"
#include "cli/sync_plan.h"
#include "cli/to_stdout.h"
#include "cli/transfer.h"
#include "cli/tree_transfer.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

bool is_dash(const std::string& operand) {
  return operand == "-";
}

Moved shown_by(Progress& progress) {
  return [&progress](std::uint64_t bytes) { progress.update(bytes); };
}

/// Prints the summary of --json.
void summarize(Call& call, const std::string& from, const std::string& to, std::uint64_t bytes,
               Clock::time_point start) {
  if (!call.json()) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  json::Object object;
  object.text("action", call.command.name).text("target", call.command.run == run_put ? to : from);
  object.text("source", from).text("destination", to).number("bytes", bytes);
  object.raw("seconds", fixed(seconds, 6));
  object.raw("bytes_per_second", fixed(static_cast<double>(bytes) / std::max(seconds, 1e-9), 0));
  call.out.line(object.str());
}

/// The local end of a download.
struct Destination {
  std::string path;
  bool stream = false;              ///< a device or a FIFO: written as it is
  std::optional<Attributes> there;  ///< of the file that is replaced

  [[nodiscard]] std::optional<std::uint32_t> kept_mode() const {
    return there ? std::optional(there->mode & kPermissions) : std::nullopt;
  }
};

/// `is_name`: `local` is the name of the copy, even if it is a directory.
Result<Destination> find_destination(const std::string& local, const Remote& remote, bool is_name) {
  struct stat facts{};
  std::string path = local;
  bool there = stat(path.c_str(), &facts) == 0;
  if (there && S_ISDIR(facts.st_mode) && !is_name) {
    path = join(local, base_name(remote.path));
    if (base_name(remote.path).empty()) return local_error(EISDIR, "get", remote.text());
    there = stat(path.c_str(), &facts) == 0;
  } else if (local.ends_with('/') && !(there && S_ISDIR(facts.st_mode))) {
    return local_error(there ? ENOTDIR : ENOENT, "get", local);
  }
  if (!there && errno != ENOENT) return local_error(errno, "stat", path);
  if (there && S_ISDIR(facts.st_mode)) return local_error(EISDIR, "get", path);
  if (!there) return Destination{path, false, {}};
  if (S_ISREG(facts.st_mode)) return Destination{path, false, attributes_of(facts)};
  return Destination{path, true, {}};
}

Result<std::uint64_t> get_to_stream(const Remote& remote, RemoteSource source, const std::string& path,
                                    Progress& progress) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) return interrupt::raised() ? interrupted() : local_error(errno, "open", path);
  const Attributes before = source.attributes;
  Result<Download> download = make_download(*remote.client, std::move(source), Download::Holes::read);
  if (!download) return download.error();
  StreamSink sink(fd.get());
  Result<std::uint64_t> size = download->run(sink, path, shown_by(progress));
  if (!size) return size;
  const Status same = check_unchanged(download->file(), before, "get", remote.text());
  return same ? size : same.error();
}

/// Says that a part of a copy is kept, unless its source has changed.
void say_kept(const Error& error, const std::string& part) {
  if (is_source_changed(error)) return;
  say("what was copied is kept as " + part + "; run the same command again to go on with it");
}

Result<std::uint64_t> download_to(TemporaryFile& file, const Remote& remote, RemoteSource source,
                                  const Destination& to, const CopyRules& rules, Progress& progress) {
  const Attributes attributes = source.attributes;
  const Download::Holes holes = rules.keeps_holes() ? find_holes(attributes) : Download::Holes::read;
  Result<Download> download = make_download(*remote.client, std::move(source), holes);
  if (!download) return download.error();
  download->begin_at(file.begin());
  FileSink sink(file.fd());
  const Moved shown = [&](std::uint64_t bytes) { progress.update(file.begin() + bytes); };
  const Result<std::uint64_t> size = download->run(sink, to.path, shown);
  if (!size) return size.error();
  const Status same = check_unchanged(download->file(), attributes, "get", remote.text());
  return same ? size : same.error();
}

Result<std::uint64_t> get_to_file(const Remote& remote, RemoteSource source, const Destination& to,
                                  const CopyRules& rules, Progress& progress) {
  const Attributes attributes = source.attributes;
  const PartOf of{attributes.size, attributes.modified};
  Result<TemporaryFile> file = rules.has_part(attributes.size) ? TemporaryFile::open_part(to.path, of)
                                                               : TemporaryFile::create(to.path);
  if (!file) return file.error();
  const auto size = download_to(*file, remote, std::move(source), to, rules, progress);
  if (!size && is_source_changed(size.error())) file->drop();
  if (!size && file->is_part()) say_kept(size.error(), file->name());
  if (!size) return size.error();
  Finished finished;
  finished.size = *size;
  finished.mode = to.kept_mode().value_or(attributes.mode & kPermissions & ~creation_mask());
  if (rules.keep == Keep::everything) finished.exact = traits_of(attributes);
  if (interrupt::raised()) return interrupted();
  if (Status status = file->commit(finished); !status) return status.error();
  return *size;
}

Status get(Call& call, const Remote& remote, const std::string& local) {
  const auto start = Clock::now();
  const Result<Destination> to = find_destination(local, remote, call.has("no-target-directory"));
  if (!to) return to.error();
  Result<RemoteSource> source = open_remote(remote, "get", "use get -r to copy it with its contents");
  if (!source) return source.error();
  if (call.has("update") && to->there && is_up_to_date(source->attributes, *to->there)) {
    summarize(call, remote.text(), to->path, 0, start);
    return {};
  }
  Progress progress(std::string(base_name(remote.path)), source->attributes.size, !call.has("quiet"));
  const Result<std::uint64_t> size =
      to->stream ? get_to_stream(remote, *std::move(source), to->path, progress)
                 : get_to_file(remote, *std::move(source), *to, rules_of(call), progress);
  if (!size) return size.error();
  progress.finish(*size);
  summarize(call, remote.text(), to->path, *size, start);
  return {};
}

/// The local end of an upload.
struct Local {
  Descriptor fd;
  std::string name;
  struct stat facts{};
  bool regular = false;
};

Result<Local> open_local(const std::string& path) {
  Local local;
  local.name = is_dash(path) ? "standard input" : path.empty() ? "''" : path;
  local.fd =
      is_dash(path) ? Descriptor(STDIN_FILENO, true) : Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (local.fd.get() < 0) return interrupt::raised() ? interrupted() : local_error(errno, "open", local.name);
  if (fstat(local.fd.get(), &local.facts) != 0) return local_error(errno, "stat", local.name);
  if (S_ISDIR(local.facts.st_mode)) return local_error(EISDIR, "put", local.name);
  // A redirected standard input may stand anywhere in its file, so it is read from there on.
  local.regular = S_ISREG(local.facts.st_mode) && !is_dash(path);
  if (local.regular) posix_fadvise(local.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return local;
}

/// How a file is put.
struct Putting {
  std::uint32_t mode = 0;   ///< permissions
  bool preserve = false;    ///< -p, for a regular file
  bool is_part = false;     ///< --resume, for a large one
  std::uint64_t begin = 0;  ///< bytes that the part has already
};

Result<std::uint64_t> send(Upload& upload, const Local& local, const Putting& how, Progress& progress) {
  const auto size = static_cast<std::uint64_t>(local.facts.st_size);
  const Moved shown = [&](std::uint64_t bytes) { progress.update(how.begin + bytes); };
  if (how.is_part)
    return run_in_steps(upload, local.fd.get(), local.name, {how.begin, size}, how.preserve, shown);
  Source source(local.fd.get(), local.regular, how.preserve);
  return upload.run(source, local.name, shown);
}

/// Does everything up to the rename: writes the bytes, makes them stable, and with -p sets the attributes.
Result<std::uint64_t> fill(Upload& upload, const Local& local, const Putting& how, Progress& progress) {
  const Result<std::uint64_t> sent = send(upload, local, how, progress);
  if (!sent) return sent.error();
  // Standard input is a stream, even if it comes from a file.
  const Growth growth = local.regular ? Growth::counts : Growth::accepted;
  if (S_ISREG(local.facts.st_mode) && has_changed(local.fd.get(), local.facts, growth))
    return source_changed("put", local.name);
  std::uint64_t size = how.begin + *sent;
  if (how.preserve) {
    std::optional<std::uint64_t> longer;
    size = std::max(upload.end(), static_cast<std::uint64_t>(local.facts.st_size));
    if (size != upload.end()) longer = size;  // the file ends in a hole
    if (Status status = upload.file().sync(); !status) return status.error();
    if (Status status = apply_traits(upload.file(), traits_of(local.facts), longer); !status)
      return status.error();
  } else if (Status status = upload.file().sync(); !status) {
    return status.error();
  }
  if (how.is_part && !how.preserve) {
    const Status done = finish_private(upload.file(), {}, how.mode, Keep::nothing);
    if (!done) return done.error();
  }
  if (Status status = upload.file().close(); !status) return status.error();
  return size;
}

/// Makes the file that becomes `to` when it is complete.
Result<RemoteTemporary> begin_put(const Remote& to, const Local& local, Putting& how) {
  if (!how.is_part) return create_temporary(to, how.preserve ? kPrivateFile : how.mode);
  const PartOf of{static_cast<std::uint64_t>(local.facts.st_size), traits_of(local.facts).modified};
  auto part = open_remote_part(to, of);
  if (!part) return part.error();
  how.begin = part->begin;
  return std::move(part->temporary);
}

Result<std::uint64_t> put_to_file(const Remote& to, const Local& local, Putting how, Progress& progress) {
  Result<RemoteTemporary> temporary = begin_put(to, local, how);
  if (!temporary) return temporary.error();
  const auto total = local.regular ? std::optional<std::uint64_t>(local.facts.st_size) : std::nullopt;
  Result<std::uint64_t> size = 0;
  std::optional<interrupt::Grace> grace;
  if (Result<Upload> upload = make_upload(*to.client, std::move(temporary->file), total)) {
    size = fill(*upload, local, how, progress);
    if (!size) grace.emplace();  // closing the file is the first part of cleaning up
  } else {
    size = upload.error();
  }
  if (size && interrupt::raised()) size = interrupted();
  if (size) {
    if (Status status = to.client->rename(temporary->remote.path, to.path); !status) size = status.error();
  }
  if (size) return size;
  if (how.is_part && !is_source_changed(size.error()))
    say_kept(size.error(), temporary->remote.text());
  else
    discard(*temporary);
  return size;
}

Status put(Call& call, const std::string& path, const Remote& target) {
  const auto start = Clock::now();
  Result<Local> local = open_local(path);
  if (!local) return local.error();
  std::optional<std::string_view> name = is_dash(path) ? "" : base_name(path);
  if (call.has("no-target-directory")) name.reset();
  const Result<Replaced> to = find_replaced(target, name);
  if (!to) return to.error();
  const std::uint32_t wanted = local->regular ? local->facts.st_mode & kPermissions : 0666U;
  if (call.has("update") && local->regular && to->there &&
      is_up_to_date(attributes_of(local->facts), *to->there)) {
    summarize(call, local->name, to->remote.text(), 0, start);
    return {};
  }
  Putting how;
  how.mode = to->kept_mode().value_or(wanted & ~creation_mask());
  how.preserve = call.has("preserve") && local->regular;
  how.is_part = local->regular && rules_of(call).has_part(static_cast<std::uint64_t>(local->facts.st_size));
  const auto total = local->regular ? std::optional<std::uint64_t>(local->facts.st_size) : std::nullopt;
  Progress progress(std::string(base_name(to->remote.path)), total, !call.has("quiet"));
  const Result<std::uint64_t> size = put_to_file(to->remote, *local, how, progress);
  if (!size) return size.error();
  progress.finish(*size);
  summarize(call, local->name, to->remote.text(), *size, start);
  return {};
}

Error local_usage(int errno_value, const char* command, const std::string& path, const char* message) {
  return {ErrorKind::local, errno_value, command, path, message};
}

/// Copies what one operand of get names. A tree reports its failures itself.
Status get_operand(Call& call, const Remote& remote, const std::string& local) {
  if (call.has("recursive")) {
    const Result<Attributes> attributes = remote.client->stat(remote.path);
    if (!attributes) return attributes.error();
    if (attributes->type == FileType::directory) {
      get_tree(call, remote, local);
      return {};
    }
  }
  if (!is_dash(local)) return get(call, remote, local);
  Progress progress(std::string(base_name(remote.path)), {}, !call.has("quiet") && !call.out.terminal());
  return copy_to_stdout(call, remote, progress);
}

/// Copies what one operand of put names. A tree reports its failures itself.
Status put_operand(Call& call, const std::string& local, const Remote& remote) {
  if (!is_dash(local) && is_directory(local)) {
    if (!call.has("recursive"))
      return local_usage(EISDIR, "put", local, "is a directory; use put -r to copy it with its contents");
    put_tree(call, local, remote);
    return {};
  }
  return put(call, local, remote);
}

Status check_directory(const Remote& remote) {
  const Result<Attributes> there = remote.client->stat(remote.path);
  if (there && there->type == FileType::directory) return {};
  if (!there && there.error().errno_value() != ENOENT) return there.error();
  return Error(ErrorKind::server, ENOTDIR, "put", remote.text(),
               "is not a directory, and several files need one; create it with mkdir");
}

}  // namespace

void run_get(Call& call) {
  const std::span<const std::string> operands = call.arguments.operands;
  const std::string local = operands.size() > 1 ? operands.back() : ".";
  const auto sources = operands.first(std::max<std::size_t>(operands.size() - 1, 1));
  if (is_dash(local) && call.json())
    return call.misused("--json and '-' both write to standard output; use only one of them");
  if (is_dash(local) && call.has("recursive"))
    return call.misused("a directory tree cannot be written to standard output; name a local directory");
  if (operands.size() > 1 && call.servers.parse(local))
    return call.misused("get copies to this machine, and '" + local +
                        "' is on a server; name a local directory last, or use put or cp");
  if (call.has("no-target-directory") && operands.size() != 2)
    return call.misused("get -T takes one target and the name of its copy");
  if (local.empty()) return call.failed(local_error(ENOENT, "get", "''"));
  const auto targets = call.targets(sources, "; to copy to a server, use put");
  if (!targets) return;
  if (targets->size() > 1 && !is_dash(local) && !is_directory(local))
    return call.failed(local_usage(ENOTDIR, "get", local,
                                   "is not a directory, and several targets need one; create it with mkdir"));
  for (const Operand& operand : *targets) {
    if (!call.going()) return;
    const Result<Remote> remote = call.servers.at(operand);
    const Status status = remote ? get_operand(call, *remote, local) : Status(remote.error());
    if (!status) call.failed(status.error());
  }
}

void run_put(Call& call) {
  const std::span<const std::string> operands = call.arguments.operands;
  const auto sources = operands.first(operands.size() - 1);
  const auto targets = call.targets(operands.last(1), "; to copy from a server, use get");
  if (!targets) return;
  for (const std::string& source : sources) {
    struct stat facts{};
    if (call.servers.parse(source) && ::lstat(source.c_str(), &facts) != 0)
      return call.misused("put copies from this machine, and '" + source + "' is on a server; use cp or get");
  }
  if (call.has("no-target-directory") && sources.size() != 1)
    return call.misused("put -T takes one file or directory and the target that its copy becomes");
  const Result<Remote> remote = call.servers.at(targets->front());
  if (!remote) return call.failed(remote.error());
  if (sources.size() > 1) {
    if (const Status there = check_directory(*remote); !there) return call.failed(there.error());
  }
  for (const std::string& source : sources) {
    if (!call.going()) return;
    const Status status = put_operand(call, source, *remote);
    if (!status) call.failed(status.error());
  }
}

}  // namespace nfsrdma::cli
