#include "trace/reading/event.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace nfsrdma::trace {

const char* to_string(EventKind kind) {
  constexpr std::array kNames{"connecting", "connected", "disconnected", "call", "reply", "error", "strange"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string Event::kind_of_call() const {
  // Operations that most COMPOUNDs have, and that do not say what one is for.
  constexpr std::array<std::string_view, 9> kCommon{
      "SEQUENCE", "PUTFH", "PUTROOTFH", "PUTPUBFH", "GETFH", "SAVEFH", "RESTOREFH", "GETATTR", "CB_SEQUENCE"};
  constexpr std::size_t kMostNames = 4;
  std::string out;
  std::vector<std::string_view> told;
  for (const bool all : {false, true}) {
    for (const Operation& one : operations) {
      if (!all && std::ranges::find(kCommon, one.name) != kCommon.end()) continue;
      if (all && (one.name == "SEQUENCE" || one.name == "PUTFH") && operations.size() > 1) continue;
      if (std::ranges::find(told, one.name) != told.end()) continue;
      told.push_back(one.name);
      if (told.size() > kMostNames) return out + "+...";
      out += (out.empty() ? "" : "+") + one.name;
    }
    if (!out.empty()) return out;
  }
  return procedure;
}

}  // namespace nfsrdma::trace
