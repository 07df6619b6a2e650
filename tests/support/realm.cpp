#include "support/realm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace nfsrdma::testing {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPath = "PATH=$PATH:/usr/sbin:/sbin; ";

sockaddr_in own_address(unsigned port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(static_cast<std::uint16_t>(port));
  return out;
}

unsigned free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  sockaddr_in address = own_address(0);
  socklen_t size = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

bool answers(unsigned port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const sockaddr_in address = own_address(port);
  const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

}  // namespace

bool Realm::possible() {
  const std::string look =
      std::string(kPath) +
      "command -v krb5kdc && command -v kdb5_util && command -v kadmin.local && command -v kinit";
  return std::system(("(" + look + ") > /dev/null 2>&1").c_str()) == 0;
}

Realm::Realm() : port_(free_port()) {
  std::string name = (std::filesystem::temp_directory_path() / "nfsrdma-realm-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return;
  directory_ = name;
  ::chmod(name.c_str(), 0755);  // for other users to see the configuration
  const std::string at = "127.0.0.1:" + std::to_string(port_);
  std::ofstream(path("krb5.conf"))
      << "[libdefaults]\n default_realm = TEST.LAB\n dns_canonicalize_hostname = false\n"
         " rdns = false\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
         "[realms]\n TEST.LAB = {\n  kdc = "
      << at << "\n }\n";
  std::ofstream(path("kdc.conf")) << "[kdcdefaults]\n kdc_listen = " << at << "\n kdc_tcp_listen = " << at
                                  << "\n[realms]\n TEST.LAB = {\n  database_name = " << path("principal")
                                  << "\n  key_stash_file = " << path("stash")
                                  << "\n  acl_file = " << path("acl")
                                  << "\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n"
                                  << "[logging]\n kdc = FILE:" << path("kdc.log") << "\n";
  ::setenv("KRB5_CONFIG", path("krb5.conf").c_str(), 1);
  ::setenv("KRB5_KDC_PROFILE", path("kdc.conf").c_str(), 1);
  ::setenv("KRB5CCNAME", ("FILE:" + path("cache")).c_str(), 1);
  ::setenv("KRB5_KTNAME", ("FILE:" + path("server")).c_str(), 1);
  if (run("kdb5_util create -s -r TEST.LAB -P master -W")) start();
}

Realm::~Realm() {
  stop();
  for (const char* const name : {"KRB5_CONFIG", "KRB5_KDC_PROFILE", "KRB5CCNAME", "KRB5_KTNAME"})
    ::unsetenv(name);
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

bool Realm::run(const std::string& command) {
  const std::string whole = std::string(kPath) + command;
  return std::system(("(" + whole + ") >> " + path("log") + " 2>&1 < /dev/null").c_str()) == 0;
}

std::string Realm::log() const {
  std::ostringstream out;
  for (const char* const name : {"log", "kdc.log"}) out << std::ifstream(path(name)).rdbuf();
  return out.str();
}

void Realm::add(const std::string& principal, const std::string& keytab) {
  (void)run("kadmin.local -q 'addprinc -randkey " + principal + "' && kadmin.local -q 'ktadd -k " +
            path(keytab) + " " + principal + "'");
}

bool Realm::get_ticket(const std::string& principal, const std::string& keytab, const std::string& life) {
  return run("kinit -l " + life + " -k -t " + path(keytab) + " " + principal);
}

void Realm::drop_tickets() {
  std::error_code ignored;
  std::filesystem::remove(path("cache"), ignored);
}

void Realm::start() {
  const std::string log = path("log");
  kdc_ = ::fork();
  if (kdc_ == 0) {
    ::execl("/bin/sh", "sh", "-c", (std::string(kPath) + "exec krb5kdc -n >> " + log + " 2>&1").c_str(),
            nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 100; ++i) {
    if (answers(port_)) return;
    std::this_thread::sleep_for(50ms);
  }
  stop();
}

void Realm::stop() {
  if (kdc_ <= 0) return;
  ::kill(kdc_, SIGTERM);
  (void)::waitpid(kdc_, nullptr, 0);
  kdc_ = -1;
}

}  // namespace nfsrdma::testing
