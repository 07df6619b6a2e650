// doctor: why a target does not work, or is slow. The library examines; this command prints.
#include <array>
#include <chrono>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/parse.h"
#include "nfsrdma/diagnose.h"

namespace nfsrdma::cli {
namespace {

struct StateName {
  const char* mark;  ///< in front of a line for people
  const char* name;  ///< in JSON
};
constexpr std::array<StateName, 4> state_names{
    {{"ok", "ok"}, {"warn", "warning"}, {"FAIL", "failed"}, {"skip", "skipped"}}};

const StateName& name_of(FindingState state) {
  return state_names.at(static_cast<std::size_t>(state));
}

constexpr const char* verdict_step = "verdict";

// ---- for people ----

std::string time_of(const Finding& finding) {
  if (finding.state == FindingState::skipped) return "-";
  const double ms = std::chrono::duration<double, std::milli>(finding.took).count();
  return fixed(ms, 1) + " ms";
}

void print_step(Output& out, const Finding& finding) {
  constexpr std::size_t mark_width = 6, name_width = 14, time_width = 11;
  out.line(left(name_of(finding.state).mark, mark_width) + left(finding.step, name_width) +
           right(time_of(finding), time_width) + "  " + printable(finding.seen));
  out.flush();
}

/// Returns the text as a sentence: with a capital letter, and a full stop unless it is a question.
std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text.ends_with('?') ? text : text + ".";
}

void print_verdict(Output& out, const Finding& verdict) {
  out.line("\nVerdict: " + printable(sentence(verdict.seen)));
  if (!verdict.advice.empty()) out.line("To do: " + printable(sentence(verdict.advice)));
}

// ---- JSON ----

std::string json_of(const Finding& finding) {
  json::Object facts;
  for (const auto& [name, value] : finding.facts) facts.text(name, value);
  json::Object out;
  out.text("step", finding.step).text("state", name_of(finding.state).name);
  out.raw("seconds", fixed(std::chrono::duration<double>(finding.took).count(), 6));
  out.text("seen", finding.seen).text("advice", finding.advice).raw("facts", facts.str());
  return out.str();
}

std::string json_of(const Target& target, const std::vector<Finding>& findings) {
  std::string steps;
  json::Object verdict;
  for (const Finding& one : findings) {
    if (one.step == verdict_step) {
      verdict.text("state", name_of(one.state).name).text("seen", one.seen).text("advice", one.advice);
    } else {
      steps += (steps.empty() ? "" : ",") + json_of(one);
    }
  }
  json::Object out;
  out.text("server", target.host).text("path", target.path);
  return out.raw("steps", "[" + steps + "]").raw("verdict", verdict.str()).str();
}

}  // namespace

void run_doctor(Call& call) {
  DiagnoseOptions wanted;
  wanted.read = call.arguments.value("read").value_or("");
  wanted.write = call.has("write");
  const std::string limit_text = call.arguments.value("limit").value_or("30");
  const auto limit = parse_interval(limit_text);
  if (!limit) return call.misused("--limit takes seconds from 0.001 on, not '" + limit_text + "'");
  wanted.limit = *limit;
  const auto operands = call.targets(std::array{server_target(call.arguments.operands[0])});
  if (!operands) return;
  const Target& target = operands->front().target;
  const FindingSink print = [&](const Finding& finding) {
    if (finding.step == verdict_step) return print_verdict(call.out, finding);
    print_step(call.out, finding);
  };
  const auto findings = diagnose(target, wanted, call.json() ? nullptr : print, interrupt::fd());
  if (!findings) return call.failed(findings.error());
  if (call.json()) call.out.line(json_of(target, *findings));
  if (findings->back().state == FindingState::failed) call.status = exit_failed;
}

}  // namespace nfsrdma::cli
