// stat: all attributes of a file that the server gives.
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/owners.h"

namespace nfsrdma::cli {
namespace {

std::string json_line(const Remote& remote, const Attributes& facts, const std::optional<std::string>& link) {
  json::Object out;
  out.text("name", base_name(remote.path)).text("path", remote.path).text("type", type_name(facts.type));
  out.text("mode", octal_mode(facts.mode)).number("nlink", facts.links);
  facts.uid ? out.number("uid", *facts.uid) : out.null("uid");
  facts.gid ? out.number("gid", *facts.gid) : out.null("gid");
  out.text("owner", facts.owner).text("group", facts.group);
  out.number("size", facts.size).number("space_used", facts.space_used);
  out.raw("atime", decimal_time(facts.accessed)).raw("mtime", decimal_time(facts.modified));
  out.raw("ctime", decimal_time(facts.changed))
      .number("fileid", facts.file_id)
      .number("change", facts.change);
  out.number("fsid_major", facts.filesystem_major).number("fsid_minor", facts.filesystem_minor);
  if (facts.type == FileType::block || facts.type == FileType::character) {
    out.number("device_major", facts.device_major).number("device_minor", facts.device_minor);
  }
  if (link) out.text("target", *link);
  return out.str();
}

std::string with_id(const std::string& name, const std::optional<std::uint32_t>& id) {
  const std::string number = id ? std::to_string(*id) : "-";
  return number == name ? number : number + " (" + name + ")";
}

void print(Output& out, const Remote& remote, const Attributes& facts,
           const std::optional<std::string>& link) {
  Owners owners(false);
  const auto row = [&](const char* key, const std::string& value) {
    out.line(right(key, 8) + ": " + printable(value));
  };
  row("File", remote.text() + (link ? " -> " + *link : ""));
  row("Type", type_name(facts.type));
  row("Size", std::to_string(facts.size) + " bytes, " + std::to_string(facts.space_used) + " in use");
  row("Mode", octal_mode(facts.mode) + " (" + mode_string(facts.type, facts.mode) + ")");
  row("Owner", with_id(owners.user(facts), facts.uid));
  row("Group", with_id(owners.group(facts), facts.gid));
  row("Links", std::to_string(facts.links));
  row("File id", std::to_string(facts.file_id) + " on " + std::to_string(facts.filesystem_major) + ":" +
                     std::to_string(facts.filesystem_minor));
  if (facts.type == FileType::block || facts.type == FileType::character) {
    row("Device", std::to_string(facts.device_major) + ", " + std::to_string(facts.device_minor));
  }
  row("Accessed", full_time(facts.accessed));
  row("Modified", full_time(facts.modified));
  row("Changed", full_time(facts.changed));
}

}  // namespace

void run_stat(Call& call) {
  call.each(0, [&](const Remote& remote) -> Status {
    const Result<Attributes> facts = remote.client->stat(remote.path, call.has("dereference"));
    if (!facts) return facts.error();
    std::optional<std::string> link;
    if (facts->type == FileType::symlink) {
      Result<std::string> text = remote.client->read_link(remote.path);
      if (!text) return text.error();
      link = *std::move(text);
    }
    if (call.json()) {
      call.out.line(json_line(remote, *facts, link));
    } else {
      print(call.out, remote, *facts, link);
    }
    return {};
  });
}

}  // namespace nfsrdma::cli
