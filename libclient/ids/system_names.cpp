#include "ids/system_names.h"

#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <strings.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace nfsrdma::ids {
namespace {

constexpr std::size_t kFirstRoom = 4096;
constexpr std::size_t kMostRoom = 16U << 20;  // a group may have very many members

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool same(const std::string& a, const char* b) {
  return ::strcasecmp(a.c_str(), b) == 0;
}

std::string dns_domain() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return "";
  std::string name = host.data();
  if (name.find('.') == std::string::npos) {
    addrinfo hints{};
    hints.ai_flags = AI_CANONNAME;
    addrinfo* found = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) == 0) {
      const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(found, &::freeaddrinfo);
      if (found->ai_canonname != nullptr) name = found->ai_canonname;
    }
  }
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? "" : name.substr(dot + 1);
}

}  // namespace

Answer with_room(const std::function<int(std::span<char>, std::optional<std::uint32_t>&)>& call) {
  int status = ERANGE;
  std::optional<std::uint32_t> id;
  for (std::size_t size = kFirstRoom; status == ERANGE && size <= kMostRoom; size *= 4) {
    std::vector<char> room(size);
    status = call(room, id);
  }
  if (status == 0 && id) return {Answer::State::found, *id};
  // getpwnam_r(3): all of these are ways to say that there is no such name.
  const bool absent =
      status == 0 || status == ENOENT || status == ESRCH || status == EBADF || status == EPERM;
  return {absent ? Answer::State::absent : Answer::State::failed, 0};
}

Answer look_up_system_name(Kind kind, const std::string& name) {
  if (kind == Kind::group) {
    return with_room([&](std::span<char> room, std::optional<std::uint32_t>& id) {
      struct group entry{};
      struct group* found = nullptr;
      const int status = ::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
      if (found != nullptr) id = found->gr_gid;
      return status;
    });
  }
  return with_room([&](std::span<char> room, std::optional<std::uint32_t>& id) {
    passwd entry{};
    passwd* found = nullptr;
    const int status = ::getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
    if (found != nullptr) id = found->pw_uid;
    return status;
  });
}

std::optional<std::string> system_name_of(Kind kind, std::uint32_t id) {
  std::string name;
  // The room is freed after the call, so the name is copied.
  const Answer answer = with_room([&](std::span<char> room, std::optional<std::uint32_t>& seen) {
    const auto take = [&](const char* text, std::uint32_t number) {
      name = text;
      seen = number;
    };
    int status = 0;
    if (kind == Kind::group) {
      struct group entry{};
      struct group* found = nullptr;
      status = ::getgrgid_r(id, &entry, room.data(), room.size(), &found);
      if (found != nullptr) take(found->gr_name, found->gr_gid);
    } else {
      passwd entry{};
      passwd* found = nullptr;
      status = ::getpwuid_r(id, &entry, room.data(), room.size(), &found);
      if (found != nullptr) take(found->pw_name, found->pw_uid);
    }
    return status;
  });
  if (answer.state != Answer::State::found) return std::nullopt;
  return name;
}

std::string domain_in_idmapd_conf(std::string_view text) {
  std::istringstream lines{std::string(text)};
  bool general = false;
  std::string domain;
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      general = same(trimmed(line.substr(1, line.find(']') - 1)), "General");
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!general || equals == std::string::npos || !same(trimmed(line.substr(0, equals)), "Domain")) continue;
    domain = trimmed(line.substr(equals + 1));
  }
  return domain;
}

std::string configured_domain(const std::string& file) {
  std::set<std::string> more;
  std::error_code error;
  for (std::filesystem::directory_iterator at(file + ".d", error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".conf") more.insert(at->path());
  }
  std::vector<std::string> files{file};
  files.insert(files.end(), more.begin(), more.end());
  std::string domain;
  for (const std::string& one : files) {
    std::ifstream in(one);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (std::string said = domain_in_idmapd_conf(text); !said.empty()) domain = std::move(said);
  }
  return domain;
}

std::string local_nfs_domain() {
  std::string domain = configured_domain("/etc/idmapd.conf");
  if (domain.empty()) domain = dns_domain();
  return domain.empty() ? "localdomain" : domain;
}

}  // namespace nfsrdma::ids
