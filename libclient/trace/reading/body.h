// The body of an RPC message: the procedure, its operations, their key arguments and results, in words.
//
// nfs4_body.cpp knows COMPOUND and CB_COMPOUND, nfs3_body.cpp the procedures of NFSv3 and v2. Both decode with
// the types of wire/, so a body is read as the client reads it. What is missing at the end of a message that
// was cut ends the decoding: the operations before are there, and that one has its name and what could be
// read of it.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/reading/event.h"
#include "xdr/decoder.h"

namespace nfsrdma::trace {

/// The procedure that a Call is for. A Reply does not name it.
struct Called {
  std::uint32_t program = 0, version = 0, procedure = 0;
  bool backward = false;
};

struct Body {
  std::string protocol, procedure;
  std::vector<Operation> operations;
  std::string status;  ///< of results
  bool failed = false;
  bool complete = true;          ///< all of it could be decoded
  std::uint64_t data_bytes = 0;  ///< results: what READ and WRITE have moved
};

/// These two functions begin behind the RPC header.
[[nodiscard]] Body arguments_of(const Called& called, xdr::Decoder& in);
[[nodiscard]] Body results_of(const Called& called, xdr::Decoder& in);

// ---- the parts, by protocol ----

/// Reads the length of READ's data, for which `out` then has words even if the data is cut, and the data.
bool read_data(xdr::Decoder& in, bool eof, std::string& out, std::uint64_t& moved);

void nfs4_arguments(xdr::Decoder& in, Body& out);
void nfs4_results(xdr::Decoder& in, Body& out);
void callback_arguments(xdr::Decoder& in, Body& out);
void callback_results(xdr::Decoder& in, Body& out);
void nfs3_arguments(std::uint32_t version, std::uint32_t procedure, xdr::Decoder& in, Body& out);
void nfs3_results(std::uint32_t version, std::uint32_t procedure, xdr::Decoder& in, Body& out);

}  // namespace nfsrdma::trace
