// acl get, acl set: access control lists, in the text forms of getfacl and nfs4_getfacl, or as JSON.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/acl_json.h"
#include "cli/commands.h"
#include "cli/format.h"
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

/// A list, and the attributes that its header shows, if it shows any.
struct Shown {
  Acl acl;
  std::optional<Attributes> facts;
};

/// Fetches the attributes for a POSIX list only, because nfs4_getfacl shows none either.
Result<Shown> fetch(Call& call, const Remote& remote) {
  const bool follow = !call.has("no-dereference");
  Result<Acl> acl = remote.client->get_acl(remote.path, follow);
  if (!acl) return acl.error();
  Shown out{*std::move(acl), std::nullopt};
  if (call.has("omit-header") || !std::holds_alternative<PosixAcls>(out.acl)) return out;
  Result<Attributes> facts = remote.client->stat(remote.path, follow);
  if (!facts) return facts.error();
  out.facts = *std::move(facts);
  return out;
}

/// Returns the header as getfacl prints it.
std::string header(const Remote& remote, const Shown& shown, Owners& owners) {
  std::string out = "# file: " + remote.path + "\n";
  if (!shown.facts) return out;
  const Attributes& facts = *shown.facts;
  out += "# owner: " + owners.user(facts) + "\n# group: " + owners.group(facts) + "\n";
  constexpr std::uint32_t set_uid = 04000, set_gid = 02000, sticky = 01000;
  if ((facts.mode & (set_uid | set_gid | sticky)) == 0) return out;
  out += "# flags: ";
  out += (facts.mode & set_uid) != 0 ? 's' : '-';
  out += (facts.mode & set_gid) != 0 ? 's' : '-';
  out += (facts.mode & sticky) != 0 ? 't' : '-';
  return out + "\n";
}

std::string object_of(const Remote& remote, const Shown& shown, Owners& owners) {
  json::Object out;
  out.text("path", remote.path).text("target", remote.target());
  if (shown.facts) {
    out.text("owner", owners.user(*shown.facts)).text("group", owners.group(*shown.facts));
    out.text("mode", octal_mode(shown.facts->mode));
  }
  add_acl(out, shown.acl, names_of(owners));
  return out.str();
}

Status get(Call& call, const Remote& remote, Owners& owners) {
  const Result<Shown> shown = fetch(call, remote);
  if (!shown) return shown.error();
  if (call.json()) {
    call.out.line(object_of(remote, *shown, owners));
    return {};
  }
  const std::string head = call.has("omit-header") ? "" : header(remote, *shown, owners);
  call.out.write(head + acl_text(shown->acl, names_of(owners)) + "\n");
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
  call.change_each(first, "acl", [&](const Remote& remote) { return set(call, remote, *wanted); });
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
