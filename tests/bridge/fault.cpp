#include "bridge/fault.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace nfsrdma::bridge {
namespace {

Error usage(std::string_view text, const std::string& message) {
  return {ErrorKind::usage, EINVAL, "--fault", std::string(text), message};
}

template <class T>
bool parse_whole(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<FaultSpec> parse_fault(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto* row = std::ranges::find_if(kFaults, [&](const FaultRow& one) { return name == one.name; });
  if (row == kFaults.end()) return usage(text, "there is no such fault; --help lists them");
  FaultSpec spec{row->fault, kDefaultRate, 0};
  if (row->counts) {
    const bool good = equals != std::string_view::npos && parse_whole(text.substr(equals + 1), spec.count) &&
                      spec.count != 0;
    if (!good) return usage(text, "it takes a number from 1 on, as in " + std::string(name) + "=50");
    return spec;
  }
  if (equals == std::string_view::npos) return spec;
  if (!parse_whole(text.substr(equals + 1), spec.rate) || !(spec.rate >= 0 && spec.rate <= 1))
    return usage(text, "it takes a rate from 0 to 1, as in " + std::string(name) + "=0.01");
  return spec;
}

std::string fault_help() {
  std::string out;
  for (const FaultRow& row : kFaults) {
    std::string name = row.counts ? std::string(row.name) + "=N" : row.name;
    name.resize(std::max<std::size_t>(name.size(), 20), ' ');
    out += "  " + name + " " + row.text + "\n";
  }
  return out;
}

Faults::Faults(const std::vector<FaultSpec>& specs, std::uint64_t seed) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    // Far apart, and different for neighbouring seeds.
    std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
                        static_cast<std::uint32_t>(i)};
    all_[i].dice.seed(mixed);
  }
  for (const FaultSpec& spec : specs) {
    One& one = at(spec.fault);
    one.asked = true;
    one.rate = spec.rate;
    one.count = spec.count;
  }
}

bool Faults::strikes(Fault fault) {
  One& one = at(fault);
  if (!one.asked || one.count != 0) return false;
  // Not a std distribution, whose results differ between libraries.
  const double thrown = static_cast<double>(one.dice() >> 11U) * 0x1p-53;
  if (thrown >= one.rate) return false;
  ++one.struck;
  return true;
}

std::uint64_t Faults::pick(Fault fault, std::uint64_t limit) {
  return limit == 0 ? 0 : at(fault).dice() % limit;
}

std::string Faults::summary() const {
  std::string out;
  for (const FaultRow& row : kFaults) {
    const One& one = at(row.fault);
    if (!one.asked) continue;
    out += (out.empty() ? "" : ", ") + std::string(row.name) + " " + std::to_string(one.struck);
  }
  return out;
}

}  // namespace nfsrdma::bridge
