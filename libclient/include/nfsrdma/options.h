// Where to connect and how: targets and options, both of which are set from text.
//
//     nfsrdma::Options options;
//     if (auto set = options.set("rsize", "65536"); !set) return fail(set.error());
//     auto target = nfsrdma::parse_target("nfs://server/export/file?sec=krb5p", options);
//
// option_help() lists the options, with the values that they take; so do nfsrdma-cli(1) and libnfsrdma(3).
//
// Thread-safety: an Options object belongs to one thread at a time, even if that thread only reads it,
// because reading uses a buffer in it. Different threads may have copies. The functions may be called from
// any thread.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

/// An option as a user may write it, for --help and man pages. The texts are static.
struct OptionHelp {
  const char* name;
  const char* values;
  const char* text;
};

inline const std::vector<OptionHelp>& option_help() {
  static const std::vector<OptionHelp> all = [] {
    std::vector<OptionHelp> out;
    auto option = api_detail::sized<nfsrdma_option>();
    for (std::size_t number = 0; nfsrdma_option_help(number, &option) == 0; ++number)
      out.push_back({option.name, option.values, option.text});
    return out;
  }();
  return all;
}

/// The options of a connection: a value that can be copied, moved and compared.
class Options {
 public:
  Options() = default;
  Options(const Options& other)
      : options_(other.options_ == nullptr ? nullptr : nfsrdma_options_copy(other.options_.get())) {}
  Options(Options&&) noexcept = default;
  Options& operator=(const Options& other) { return *this = Options(other); }
  Options& operator=(Options&&) noexcept = default;
  ~Options() = default;

  /// Sets one option from its text, as in "rsize=65536". A usage Error names the option and the values that
  /// it takes.
  Status set(std::string_view name, std::string_view value) {
    if (api_detail::has_nul(name)) return api_detail::nul_error(name);
    if (api_detail::has_nul(value)) return api_detail::nul_error(value);
    return changed([&](nfsrdma_options* options, nfsrdma_error** error) {
      return nfsrdma_options_set(options, std::string(name).c_str(), std::string(value).c_str(), error);
    });
  }
  /// Sets several: "rsize=65536,crc=on".
  Status set_all(std::string_view list) {
    if (api_detail::has_nul(list)) return api_detail::nul_error(list);
    return changed([&](nfsrdma_options* options, nfsrdma_error** error) {
      return nfsrdma_options_set_all(options, std::string(list).c_str(), error);
    });
  }
  /// Returns the value of an option as text, "" if it is not set; nothing if there is no such option.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const {
    nfsrdma_options* const options = handle();
    if (options == nullptr) return std::nullopt;
    const char* const value = nfsrdma_options_get(options, std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  }
  /// Returns where the value of an option comes from: "default", "program" (set()), "target" (a URL),
  /// "NFSRDMA_OPTIONS" or "FILE:LINE" (nfsrdma.conf(5)); nothing if there is no such option.
  [[nodiscard]] std::optional<std::string> origin(std::string_view name) const {
    nfsrdma_options* const options = handle();
    if (options == nullptr) return std::nullopt;
    const char* const text = nfsrdma_options_origin(options, std::string(name).c_str());
    if (text == nullptr) return std::nullopt;
    return text;
  }
  /// Compares the values of all options.
  friend bool operator==(const Options& left, const Options& right) {
    if (left.options_ == right.options_) return true;  // both are empty
    return std::ranges::all_of(option_help(), [&](const OptionHelp& option) {
      return left.get(option.name) == right.get(option.name);
    });
  }

  /// Returns the options of the C interface, which stay this object's. Null: no memory.
  [[nodiscard]] nfsrdma_options* handle() const {
    if (options_ == nullptr) options_.reset(nfsrdma_options_new());
    return options_.get();
  }

 private:
  struct Free {
    void operator()(nfsrdma_options* options) const { nfsrdma_options_free(options); }
  };
  template <class Change>
  Status changed(Change change) {
    api_detail::OwnedError error;
    nfsrdma_options* const options = handle();
    if (options == nullptr || change(options, error.room()) < 0) return error_from(error.get());
    return {};
  }
  /// Null until an option is set or read.
  mutable std::unique_ptr<nfsrdma_options, Free> options_;
};

struct Target {
  std::string host;
  std::string path;  ///< absolute, as the server sees it; "/" if none was given
  Options options;
};

/// Parses "nfs://host[:port]/path?opt=val&opt=val", "host:/path" or "[v6addr]:/path". The options start from
/// `base`. Those that neither sets get the defaults of nfsrdma.conf(5), unless the option "config" is "none".
inline Result<Target> parse_target(std::string_view text, const Options& base = {}) {
  if (api_detail::has_nul(text)) return api_detail::nul_error(text);
  Target out{"", "", base};
  api_detail::OwnedError error;
  nfsrdma_options* const options = out.options.handle();
  if (options == nullptr || nfsrdma_options_set_target(options, std::string(text).c_str(), error.room()) < 0)
    return error_from(error.get());
  out.host = out.options.get("host").value_or("");
  out.path = out.options.get("path").value_or("/");
  return out;
}

namespace api_detail {

/// Appends `text` to a URL. Characters that have a meaning in a URL become %XX (RFC 3986 2.1).
inline void append_encoded(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter || (c >= '0' && c <= '9') || std::string_view("-._~/:").find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto octet = static_cast<unsigned char>(c);
      out += '%';
      out += digits[octet >> 4U];
      out += digits[octet & 15U];
    }
  }
}

/// Returns host and path of a target as a URL. An IPv6 address, which has colons, stands in brackets.
inline std::string url_of(const Target& target) {
  const bool has_colon = target.host.find(':') != std::string::npos;
  std::string out = has_colon ? "nfs://[" : "nfs://";
  append_encoded(out, target.host);
  if (has_colon) out += ']';
  if (!target.path.starts_with('/')) out += '/';
  append_encoded(out, target.path);
  return out;
}

}  // namespace api_detail
}  // namespace nfsrdma
