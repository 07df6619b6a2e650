// See remote_text.h.
#include "cli/remote_text.h"

namespace nfsrdma::cli {

ReadAt text_of(File& file) {
  return [&file](std::uint64_t offset, std::size_t count) -> Result<std::string> {
    std::string out(count, '\0');
    const Result<std::size_t> got = file.read(std::as_writable_bytes(std::span(out)), offset);
    if (!got) return got.error();
    out.resize(*got);
    return out;
  };
}

Headings::Headings(Call& call)
    : call_(call),
      wanted_(!call.has("quiet") && (call.has("verbose") || call.arguments.operands.size() > 1)) {}

void Headings::show(const Remote& remote) {
  const std::string target = remote.target();
  if (!wanted_ || target == last_) return;
  call_.out.write((last_.empty() ? "==> " : "\n==> ") + call_.shown(target) + " <==\n");
  last_ = target;
}

}  // namespace nfsrdma::cli
