// The result of nfsrdma_info_get() and nfsrdma_statistics_get(): entries, each with a name, a text and a number.
//
// Thread-safety: a plain value, which belongs to the program.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/nfsrdma.h"

struct nfsrdma_info {
  struct Entry {
    std::string name, text;
    std::uint64_t number = 0;
  };
  std::vector<Entry> entries;

  void add(std::string name, std::string text, std::uint64_t number = 0) {
    entries.push_back({std::move(name), std::move(text), number});
  }
  void add(std::string name, std::unsigned_integral auto number) {
    add(std::move(name), std::to_string(number), number);
  }
  void add(std::string name, bool yes) { add(std::move(name), yes ? "yes" : "no", yes ? 1 : 0); }
  [[nodiscard]] const Entry* find(const char* name) const {
    for (const Entry& one : entries) {
      if (name != nullptr && one.name == name) return &one;
    }
    return nullptr;
  }
};
