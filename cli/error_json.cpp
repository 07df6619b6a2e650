// See error_json.h.
#include "cli/error_json.h"

#include <cstring>

#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::local:
      return "local";
    case ErrorKind::connection:
      return "connection";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::protocol:
      return "protocol";
    case ErrorKind::server:
      return "server";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::unknown_outcome:
      return "unknown_outcome";
  }
  return "unknown";
}

bool is_status_name(std::string_view text) {
  return text.starts_with("NFS") && text.find("ERR_") != std::string_view::npos &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
}

/// Takes "(NFS4ERR_NOENT)" off the end of the text.
std::string take_status(std::string& text) {
  const std::size_t open = text.rfind(" (");
  if (open == std::string::npos || !text.ends_with(')')) return "";
  std::string name = text.substr(open + 2, text.size() - open - 3);
  if (!is_status_name(name)) return "";
  text.resize(open);
  return name;
}

}  // namespace

MessageParts parts_of(const std::string& message) {
  MessageParts out;
  out.explanation = message;
  out.status = take_status(out.explanation);
  const std::size_t semicolon = out.explanation.rfind("; ");
  if (semicolon == std::string::npos) return out;
  out.next_step = out.explanation.substr(semicolon + 2);
  out.explanation.resize(semicolon);
  return out;
}

std::string errno_name(int errno_value) {
  const char* const name = ::strerrorname_np(errno_value);
  return name == nullptr || errno_value == 0 ? "" : name;
}

std::string error_json(const Error& error) {
  const MessageParts parts = parts_of(error.message());
  json::Object out;
  out.text("kind", kind_name(error.kind()));
  if (!error.peer().empty()) out.text("target", error.peer());
  if (!error.operation().empty()) out.text("operation", error.operation());
  if (const std::string name = errno_name(error.errno_value()); !name.empty()) out.text("errno", name);
  if (!parts.status.empty()) out.text("status", parts.status);
  out.text("message", parts.explanation);
  if (!parts.next_step.empty()) out.text("next_step", parts.next_step);
  return out.str();
}

std::string notice_json(std::string_view text) {
  return json::Object().text("kind", "notice").text("message", text).str();
}

}  // namespace nfsrdma::cli
