// shell: commands on one connection, from a terminal, a script on standard input, or --command.
#include <unistd.h>

#include <cerrno>

#include "cli/line_editor.h"
#include "cli/shell_session.h"

namespace nfsrdma::cli {
namespace {

/// Returns false if the shell should end.
bool run_next(ShellSession& session, LineEditor& editor, bool is_interactive, bool stops) {
  std::string line;
  switch (editor.read(session.prompt(), line)) {
    case LineEditor::Input::end:
      return false;
    case LineEditor::Input::interrupted:
      // Ctrl-C at the prompt drops the line.
      return is_interactive && interrupt::forget();
    case LineEditor::Input::line:
      session.run(line, stops);
      break;
  }
  return !session.is_over() && !(stops && session.status() != 0);
}

void run_lines(ShellSession& session, bool is_interactive, bool stops) {
  LineEditor editor([&](const std::string& line) { return session.complete(line); }, is_interactive);
  while (run_next(session, editor, is_interactive, stops)) {
  }
}

}  // namespace

void run_shell(Call& call) {
  const auto operands = call.targets(call.arguments.operands);
  if (!operands) return;
  const Operand& operand = operands->front();
  const Result<Remote> start = call.servers.at(operand);
  if (!start) return call.failed(start.error());
  const Result<Attributes> attributes = start->client->stat(start->path);
  if (!attributes) return call.failed_at(*start, attributes.error());
  if (attributes->type != FileType::directory)
    return call.failed(
        {ErrorKind::usage, ENOTDIR, "shell", start->text(), "is not a directory; name one to begin in"});
  const auto lines = call.arguments.given.find("command");
  const bool is_interactive = lines == call.arguments.given.end() && ::isatty(STDIN_FILENO) != 0;
  std::optional<interrupt::Session> survives_signals;
  if (is_interactive) survives_signals.emplace();
  ShellSession session(call.servers, operand.target, *start, call.json());
  const bool stops = call.has("exit-on-error");
  if (lines != call.arguments.given.end()) {
    for (const std::string& line : lines->second) {
      session.run(line, stops);
      if (session.is_over() || (stops && session.status() != 0)) break;
    }
  } else {
    run_lines(session, is_interactive, stops);
  }
  call.status = session.status();
}

}  // namespace nfsrdma::cli
