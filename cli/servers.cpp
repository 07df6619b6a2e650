// See servers.h.
#include "cli/servers.h"

#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/statistics.h"

namespace nfsrdma::cli {
namespace {

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

Given given_by(std::string_view text, const Target& target) {
  Given out;
  out.is_url = text.starts_with("nfs://");
  const std::size_t question = out.is_url ? text.find('?') : std::string_view::npos;
  out.text = text.substr(0, question);
  if (question != std::string_view::npos) out.query = text.substr(question);
  if (target.path == "/" && !out.text.ends_with('/')) out.text += '/';
  out.path_size = target.path.size();
  return out;
}

/// Says what was negotiated, in two lines.
void say_negotiated(const Info& info) {
  std::string line = info.server + ": connected to " + info.address + " over " + info.fabric;
  if (!info.fabric_reason.empty()) line += " (" + info.fabric_reason + ")";
  say(line + ", " + std::to_string(info.credits_granted) + " credits");
  line = info.server + ": NFS " + info.version + ", sec=" + info.security + ", rsize " +
         std::to_string(info.rsize) + ", wsize " + std::to_string(info.wsize);
  if (!info.session_id.empty())
    line += ", session " + info.session_id + " with " + std::to_string(info.slots) + " slots";
  say(line);
}

}  // namespace

std::string percent_encoded(std::string_view path) {
  constexpr std::string_view digits = "0123456789ABCDEF", plain = "-._~/:@!$'()+,;=";
  std::string out;
  for (const char c : path) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_letter || plain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    const auto octet = static_cast<unsigned char>(c);
    out += '%';
    out += digits[octet >> 4U];
    out += digits[octet & 15U];
  }
  return out;
}

bool are_on_same_server(const Target& one, const Target& other) {
  return one.host == other.host && one.options == other.options;
}

std::string join(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.ends_with('/')) out += '/';
  return out += name;
}

std::string_view base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  return path.substr(path.rfind('/') + 1);
}

std::string_view directory_name(std::string_view path) {
  path = without_trailing_slashes(path);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return without_trailing_slashes(path.substr(0, slash == 0 ? 1 : slash));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Remote Remote::child(std::string_view name) const {
  return {client, join(path, name), host, given};
}

std::string Remote::target() const {
  if (!given) return text();
  const std::string below = path.substr(given->path_size);
  return given->text + (given->is_url ? percent_encoded(below) : below) + given->query;
}

Result<Operand> Servers::parse(std::string_view text) const {
  Result<Target> target = parse_target(text, base_);
  if (!target) return target.error();
  auto given = std::make_shared<const Given>(given_by(text, *target));
  return Operand{*std::move(target), std::move(given)};
}

Result<Remote> Servers::at(std::string_view text) {
  const Result<Operand> operand = parse(text);
  if (!operand) return operand.error();
  return at(*operand);
}

Result<Remote> Servers::at(const Operand& operand) {
  Result<Remote> out = at(operand.target);
  if (out) out->given = operand.given;
  return out;
}

Result<Remote> Servers::at(const Target& target) {
  for (const Server& server : servers_) {
    if (are_on_same_server(server.target, target)) {
      return Remote{server.client.get(), target.path, target.host};
    }
  }
  if (is_verbose_) say("connecting to " + target.host);
  Result<std::unique_ptr<Client>> client = Client::connect(target, this, interrupt::fd());
  if (!client) return client.error();
  if (is_verbose_) say_negotiated((*client)->info());
  servers_.push_back({target, *std::move(client)});
  return Remote{servers_.back().client.get(), target.path, target.host};
}

std::string Servers::statistics(bool as_json) const {
  std::string out;
  for (const Server& one : servers_) {
    const Statistics found = one.client->statistics();
    if (!as_json) out += statistics_text(one.target.host, found);
    if (as_json) out += (out.empty() ? "" : ",") + statistics_json(one.target.host, found);
  }
  if (as_json) return "{\"statistics\":[" + out + "]}\n";
  return out.empty() ? "statistics: the command made no connection\n" : out;
}

void Servers::notice(const std::string& text) {
  say(text);
}

}  // namespace nfsrdma::cli
