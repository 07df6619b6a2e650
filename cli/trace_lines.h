// The events of a trace as text: lines for people, and JSON.
//
// Pure functions. Names and comments of the file are escaped by the decoder.
#pragma once

#include <string>
#include <vector>

#include "trace/reading/event.h"
#include "trace/reading/summary.h"

namespace nfsrdma::cli {

/// "14:55:01.123456 #1 > 0x12345678 NFSv4.2 SEQUENCE slot=0 seq=5; READ offset=0 count=4096 [...]".
std::string trace_line(const trace::Event& event);
std::string trace_json(const trace::Event& event);

/// Lines of a table, with a head.
std::vector<std::string> summary_lines(const trace::Summary& summary, std::size_t unanswered);
/// One object.
std::string summary_json(const trace::Summary& summary, std::size_t unanswered);

}  // namespace nfsrdma::cli
