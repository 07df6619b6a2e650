// A directory of a test's own on this machine. It goes with all that is in it.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace nfsrdma::testing {

class Scratch {
 public:
  /// `of`: stands in its name.
  explicit Scratch(const std::string& of)
      : path_(std::filesystem::temp_directory_path() / ("nfsrdma-" + of + "-XXXXXX")) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace nfsrdma::testing
