// Test cases, or parts of them, that cannot run on this machine. They pass, and the last line of the program counts them:
//
//     if (!Realm::possible()) return skip("there is no KDC here (packaging/packages.sh install test)");
//
// Only on the thread that runs the test cases.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <ostream>
#include <set>
#include <string>

namespace nfsrdma::testing {

/// Reasons, and the test cases that each of them kept from running, in whole or in part.
inline std::map<std::string, std::set<std::string>>& skipped_cases() {
  static std::map<std::string, std::set<std::string>> all;
  return all;
}

/// Counts the test case that is running as skipped. The caller leaves out what cannot run.
inline void skip(const std::string& reason) {
  skipped_cases()[reason].insert(doctest::getContextOptions()->currentTest->m_name);
  MESSAGE("skipped: " << reason);
}

/// "skipped: 12 test cases: 9 there is no KDC here; 3 this needs root". tests/skipped.sh reads it.
inline void print_skipped(std::ostream& out) {
  std::set<std::string> names;
  for (const auto& [reason, cases] : skipped_cases()) names.insert(cases.begin(), cases.end());
  out << "skipped: " << names.size() << " test cases";
  const char* before = ": ";
  for (const auto& [reason, cases] : skipped_cases()) {
    out << before << cases.size() << ' ' << reason;
    before = "; ";
  }
  out << '\n';
}

}  // namespace nfsrdma::testing
