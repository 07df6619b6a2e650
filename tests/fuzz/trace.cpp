// A trace from any bytes: the decoder of nfsrdma-cli trace. The input is one byte, which says how the rest
// arrives, and a file.
//
// Nothing trips, what comes out is bounded, and the way in which the bytes arrive does not matter.
#include <algorithm>

#include "cli/trace_lines.h"
#include "fuzz.h"
#include "trace/reading/decoder.h"

using namespace nfsrdma;

namespace {

struct Read {
  std::vector<std::string> lines;
  std::string fault;
  std::size_t unanswered = 0;
};

Read read_in_pieces(fuzz::ConstOctets file, fuzz::Cuts cuts) {
  Read out;
  trace::Summary summary;
  trace::Decoder decoder([&](const trace::Event& event) {
    out.lines.push_back(cli::trace_line(event));
    FUZZ_CHECK(cli::trace_json(event).find('\n') == std::string::npos);
    // No byte may act on a terminal.
    FUZZ_CHECK(
        std::ranges::all_of(out.lines.back(), [](char c) { return static_cast<unsigned char>(c) >= ' '; }));
    summary.add(event, event.kind_of_call());
  });
  while (!file.empty()) {
    const std::size_t count = std::min(cuts.next(), file.size());
    decoder.add(file.first(count));
    file = file.subspan(count);
  }
  decoder.finish();
  out.fault = decoder.fault();
  out.unanswered = decoder.unanswered();
  static_cast<void>(cli::summary_lines(summary, out.unanswered));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 65536);
  const std::uint8_t seed = script.u8();
  const Read whole = read_in_pieces(script.rest(), fuzz::Cuts(0));
  const Read pieces = read_in_pieces(script.rest(), fuzz::Cuts(seed));
  FUZZ_CHECK(whole.lines == pieces.lines);
  FUZZ_CHECK(whole.fault == pieces.fault);
  FUZZ_CHECK(whole.unanswered == pieces.unanswered);
  return 0;
}
