// acl get, acl set: access control lists, in the text forms of getfacl and nfs4_getfacl.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/commands.h"
#include "cli/local.h"
#include "cli/owners.h"
#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

AclNames names_of(Owners& owners) {
  AclNames out;
  out.name = [&owners](bool group, std::uint32_t id) {
    Attributes one;
    (group ? one.gid : one.uid) = id;
    return group ? owners.group(one) : owners.user(one);
  };
  out.id = [](bool group, const std::string& name) -> std::optional<std::uint32_t> {
    const auto found = parse_ownership(group ? ":" + name : name);
    if (!found) return std::nullopt;
    return group ? found->gid : found->uid;
  };
  return out;
}

// ---- get ----

/// Returns the header as getfacl prints it. For an NFSv4 list it has the file alone, as with nfs4_getfacl.
Result<std::string> header(const Remote& remote, bool posix, Owners& owners, bool follow) {
  std::string out = "# file: " + remote.path + "\n";
  if (!posix) return out;
  const Result<Attributes> facts = remote.client->stat(remote.path, follow);
  if (!facts) return facts.error();
  out += "# owner: " + owners.user(*facts) + "\n# group: " + owners.group(*facts) + "\n";
  constexpr std::uint32_t set_uid = 04000, set_gid = 02000, sticky = 01000;
  if ((facts->mode & (set_uid | set_gid | sticky)) == 0) return out;
  out += "# flags: ";
  out += (facts->mode & set_uid) != 0 ? 's' : '-';
  out += (facts->mode & set_gid) != 0 ? 's' : '-';
  out += (facts->mode & sticky) != 0 ? 't' : '-';
  return out + "\n";
}

Status get(Call& call, const Remote& remote, Owners& owners) {
  const bool follow = !call.has("no-dereference");
  const Result<Acl> acl = remote.client->get_acl(remote.path, follow);
  if (!acl) return acl.error();
  std::string out;
  if (!call.has("omit-header")) {
    auto head = header(remote, std::holds_alternative<PosixAcls>(*acl), owners, follow);
    if (!head) return head.error();
    out = *std::move(head);
  }
  call.out.write(out + acl_text(*acl, names_of(owners)) + "\n");
  return {};
}

// ---- set ----

Result<std::string> read_all(const std::string& name) {
  constexpr std::size_t most = 4U << 20;
  const Descriptor file =
      name == "-" ? Descriptor(STDIN_FILENO, true) : Descriptor(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return local_error(errno, "open", name);
  std::string out;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR && !interrupt::raised()) continue;
    if (count < 0) return local_error(errno, "read", name);
    if (count == 0) return out;
    out.append(piece.data(), static_cast<std::size_t>(count));
    // A part of the entries would grant other rights.
    if (out.size() > most) return local_error(EFBIG, "read", name);
  }
}

/// Returns the lists that are to be set, and completes POSIX lists whose text leaves something out.
Result<Acl> whole(Call& call, const Remote& remote, const Acl& wanted, bool follow) {
  const auto* lists = std::get_if<PosixAcls>(&wanted);
  if (lists == nullptr) return wanted;
  const Result<Acl> now = remote.client->get_acl(remote.path, follow);
  if (!now) return now.error();
  const auto* current = std::get_if<PosixAcls>(&*now);
  if (current == nullptr) return wanted;  // the server has the other form, which set_acl() reports
  PosixAcls out = completed(*lists, *current);
  if (call.has("remove-default")) out.inherited.clear();
  return Acl(std::move(out));
}

Status set(Call& call, const Remote& remote, const Acl& wanted) {
  const bool follow = !call.has("no-dereference");
  const Result<Acl> acl = whole(call, remote, wanted, follow);
  if (!acl) return acl.error();
  return remote.client->set_acl(remote.path, *acl, follow);
}

void run_set(Call& call) {
  const auto file = call.arguments.value("file");
  const bool bare = !file && call.has("remove-default") && call.arguments.operands.size() == 2;
  const std::size_t first = file || bare ? 1 : 2;
  if (call.arguments.operands.size() <= first)
    return call.misused("acl set needs entries, or --file, and a target");
  Result<std::string> text = std::string();
  if (file) text = read_all(*file);
  if (!file && !bare) text = call.arguments.operands[1];
  if (!text) return call.failed(text.error());
  Owners owners(false);
  const Result<Acl> wanted = parse_acl(*text, names_of(owners));
  if (!wanted) return call.misused(wanted.error().message());
  call.each(first, [&](const Remote& remote) { return set(call, remote, *wanted); });
}

}  // namespace

void run_acl(Call& call) {
  const std::string& what = call.arguments.operands[0];
  if (what == "set") return run_set(call);
  if (what != "get") return call.misused("acl takes get or set, not '" + what + "'");
  Owners owners(call.has("numeric"));
  call.each(1, [&](const Remote& remote) { return get(call, remote, owners); });
}

}  // namespace nfsrdma::cli
