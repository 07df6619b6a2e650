// config: which options are in force for a target, and where each of them comes from. The library reads the
// configuration; this command prints. No server is asked.
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

struct Row {
  std::string name, value, origin;
};

/// Returns the rows of all options, or only of those that do not have their defaults.
std::vector<Row> rows_of(const Options& options, bool only_changed) {
  std::vector<Row> out;
  for (const OptionHelp& one : option_help()) {
    std::string origin = options.origin(one.name).value_or("");
    if (only_changed && origin == "default") continue;
    if (origin == "program") origin = "command line";
    out.push_back({one.name, options.get(one.name).value_or(""), std::move(origin)});
  }
  return out;
}

void print(Output& out, const std::vector<Row>& rows) {
  constexpr std::size_t name_width = 18, value_width = 20;
  for (const Row& row : rows) {
    const std::string value = row.value.empty() ? "-" : printable(row.value);
    out.line(left(row.name, name_width) + left(value, value_width) + " " + printable(row.origin));
  }
}

std::string json_of(const Target& target, const std::vector<Row>& rows) {
  json::Object options;
  for (const Row& row : rows)
    options.raw(row.name, json::Object().text("value", row.value).text("from", row.origin).str());
  json::Object out;
  return out.text("server", target.host).text("path", target.path).raw("options", options.str()).str();
}

}  // namespace

void run_config(Call& call) {
  const auto targets = server_targets(call);
  if (!targets) return;
  for (const Operand& operand : *targets) {
    const Target& target = operand.target;
    const auto rows = rows_of(target.options, call.has("changed"));
    if (call.json()) {
      call.out.line(json_of(target, rows));
      continue;
    }
    if (targets->size() > 1) call.out.line(printable(Remote{nullptr, target.path, target.host}.text()) + ":");
    print(call.out, rows);
  }
}

}  // namespace nfsrdma::cli
