#include "fabric/verbs/library.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "async/descriptor.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr const char* devices = "/sys/class/infiniband";
constexpr const char* connection_manager = "/dev/infiniband/rdma_cm";
constexpr const char* cm_library = "librdmacm.so.1";
constexpr const char* verbs_library = "libibverbs.so.1";

struct Symbol {
  template <class Function>
  Symbol(const char* n, Function** where) : name(n), pointer(static_cast<void*>(where)) {}
  const char* name;
  void* pointer;  // where the function's address is stored
};

std::string load(const char* file, std::initializer_list<Symbol> symbols) {
  // The libraries are never unloaded, because both keep the state of threads and devices.
  void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return std::string(file) + " cannot be loaded (" + (why != nullptr ? why : "no reason given") + ")";
  }
  for (const Symbol& symbol : symbols) {
    void* found = ::dlsym(handle, symbol.name);
    if (found == nullptr) return std::string(file) + " has no " + symbol.name;
    std::memcpy(symbol.pointer, static_cast<const void*>(&found),
                sizeof found);  // POSIX: data and function pointers have the same representation
  }
  return {};
}

struct Loaded {
  async::Birth birth;
  Library library;
  std::string failure;

  Loaded() {
    Library& l = library;
    // libibverbs is loaded first because librdmacm needs it.
    failure = load(verbs_library, {{"ibv_open_device", &l.open_device},
                                   {"ibv_close_device", &l.close_device},
                                   {"ibv_get_device_name", &l.get_device_name},
                                   {"ibv_query_device", &l.query_device},
                                   {"ibv_get_async_event", &l.get_async_event},
                                   {"ibv_ack_async_event", &l.ack_async_event},
                                   {"ibv_alloc_pd", &l.alloc_pd},
                                   {"ibv_dealloc_pd", &l.dealloc_pd},
                                   {"ibv_reg_mr", &l.reg_mr},
                                   {"ibv_dereg_mr", &l.dereg_mr},
                                   {"ibv_create_comp_channel", &l.create_comp_channel},
                                   {"ibv_destroy_comp_channel", &l.destroy_comp_channel},
                                   {"ibv_create_cq", &l.create_cq},
                                   {"ibv_destroy_cq", &l.destroy_cq},
                                   {"ibv_get_cq_event", &l.get_cq_event},
                                   {"ibv_ack_cq_events", &l.ack_cq_events},
                                   {"ibv_wc_status_str", &l.wc_status_str}});
    if (!failure.empty()) return;
    failure = load(cm_library, {{"rdma_create_event_channel", &l.create_event_channel},
                                {"rdma_destroy_event_channel", &l.destroy_event_channel},
                                {"rdma_create_id", &l.create_id},
                                {"rdma_destroy_id", &l.destroy_id},
                                {"rdma_bind_addr", &l.bind_addr},
                                {"rdma_resolve_addr", &l.resolve_addr},
                                {"rdma_resolve_route", &l.resolve_route},
                                {"rdma_create_qp", &l.create_qp},
                                {"rdma_destroy_qp", &l.destroy_qp},
                                {"rdma_connect", &l.connect},
                                {"rdma_listen", &l.listen},
                                {"rdma_accept", &l.accept},
                                {"rdma_reject", &l.reject},
                                {"rdma_disconnect", &l.disconnect},
                                {"rdma_migrate_id", &l.migrate_id},
                                {"rdma_get_src_port", &l.get_src_port},
                                {"rdma_get_cm_event", &l.get_cm_event},
                                {"rdma_ack_cm_event", &l.ack_cm_event}});
  }
};

}  // namespace

std::string missing_device() {
  std::error_code ignored;
  const std::filesystem::directory_iterator first(devices, ignored);
  if (ignored || first == std::filesystem::directory_iterator()) return "this machine has no RDMA device";
  if (::access(connection_manager, R_OK | W_OK) != 0) {
    return std::string(connection_manager) + " cannot be opened (" + std::strerror(errno) + ")";
  }
  return {};
}

std::uint64_t lockable_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  if (limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &none) == 0) return UINT64_MAX;  // the process is privileged
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

Result<const Library*> library() {
  static const Loaded loaded;
  // librdmacm and libibverbs keep devices open. A child process that used them would change its parent's
  // state.
  if (loaded.birth.is_inherited()) {
    return Error{ErrorKind::local, ENODEV, "connect", "",
                 "the parent process uses RDMA devices, which a forked child cannot share; call exec(2) "
                 "first, or use fabric=iwarp"};
  }
  if (loaded.failure.empty()) return &loaded.library;
  return Error{ErrorKind::local, ENOENT, "connect", "",
               loaded.failure + "; install rdma-core's librdmacm1, libibverbs1 and ibverbs-providers"};
}

}  // namespace nfsrdma::fabric::verbs
