// Options and targets of the C interface.
#include <cstring>
#include <new>

#include "api/clients.h"
#include "connect/configuration.h"

using namespace nfsrdma;
using namespace nfsrdma::api;

Status nfsrdma::api::configure(nfsrdma_options& options) {
  connect::Target target{options.target.host, options.target.path, options.given};
  if (Status done = connect::configure(target, connect::Sources::of_process()); !done) return done;
  options.target = std::move(target);
  return {};
}

Status nfsrdma::api::aim(nfsrdma_options& options, const char* target) {
  auto parsed = connect::parse_target(target, options.given);
  if (!parsed) return parsed.error();
  nfsrdma_options changed = options;
  changed.given = parsed->options;
  changed.target = std::move(*parsed);
  if (Status done = configure(changed); !done) return done;
  options = std::move(changed);
  return {};
}

namespace {

/// Has `change` set options, all or none. If it chooses another configuration, a target that was set before gets
/// that one's defaults.
template <class Change>
Status changed(nfsrdma_options& options, Change change) {
  nfsrdma_options out = options;
  if (Status done = change(out.given); !done) return done;
  const bool has_other_defaults = out.given.config != options.given.config && !out.target.host.empty();
  const Status done = has_other_defaults ? configure(out) : change(out.target.options);
  if (done) options = std::move(out);
  return done;
}

/// Sets an option that only programs may set, not their users.
std::int64_t set_no_core(nfsrdma_options& options, std::string_view value, nfsrdma_error** error) {
  if (value != "yes" && value != "no") return fail(error, missing("value (of no_core: yes or no)"));
  options.given.no_core = options.target.options.no_core = value == "yes";
  return 0;
}

}  // namespace

nfsrdma_options* nfsrdma_options_new(void) {
  return guarded_object(nullptr, [] { return new nfsrdma_options(); });
}

nfsrdma_options* nfsrdma_options_copy(const nfsrdma_options* options) {
  return guarded_object(
      nullptr, [&] { return options != nullptr ? new nfsrdma_options(*options) : new nfsrdma_options(); });
}

void nfsrdma_options_free(nfsrdma_options* options) {
  delete options;
}

int nfsrdma_options_set(nfsrdma_options* options, const char* name, const char* value,
                        nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    if (options == nullptr || name == nullptr || value == nullptr)
      return fail(error, missing(options == nullptr ? "options" : name == nullptr ? "name" : "value"));
    if (std::strcmp(name, "no_core") == 0) return set_no_core(*options, value, error);
    auto done = changed(*options, [&](connect::Options& all) { return all.set(name, value); });
    return done ? 0 : fail(error, done.error());
  }));
}

int nfsrdma_options_set_all(nfsrdma_options* options, const char* list, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    if (options == nullptr || list == nullptr)
      return fail(error, missing(options == nullptr ? "options" : "list"));
    auto done = changed(*options, [&](connect::Options& all) { return all.set_all(list); });
    return done ? 0 : fail(error, done.error());
  }));
}

int nfsrdma_options_set_target(nfsrdma_options* options, const char* target, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    if (options == nullptr || target == nullptr)
      return fail(error, missing(options == nullptr ? "options" : "target"));
    auto done = aim(*options, target);
    return done ? 0 : fail(error, done.error());
  }));
}

const char* nfsrdma_options_get(nfsrdma_options* options, const char* name) {
  return guarded_object(nullptr, [&]() -> const char* {
    if (options == nullptr || name == nullptr) return nullptr;
    if (std::strcmp(name, "host") == 0) return options->target.host.c_str();
    if (std::strcmp(name, "path") == 0) return options->target.path.c_str();
    if (std::strcmp(name, "no_core") == 0) return options->target.options.no_core ? "yes" : "no";
    auto text = options->target.options.get(name);
    if (!text) return nullptr;
    options->answer = std::move(*text);
    return options->answer.c_str();
  });
}

const char* nfsrdma_options_origin(nfsrdma_options* options, const char* name) {
  return guarded_object(nullptr, [&]() -> const char* {
    if (options == nullptr || name == nullptr) return nullptr;
    const connect::Options& in_force = options->target.options;
    if (!in_force.get(name)) return nullptr;
    options->answer = in_force.origin(name);
    return options->answer.c_str();
  });
}

void nfsrdma_options_set_log(nfsrdma_options* options, nfsrdma_log log, void* data) {
  if (options == nullptr) return;
  options->log = log;
  options->log_data = data;
}

void nfsrdma_options_set_interrupt(nfsrdma_options* options, int descriptor) {
  if (options != nullptr) options->interrupt = descriptor;
}

int nfsrdma_option_help(size_t number, nfsrdma_option* option) {
  const auto& all = connect::option_help();
  if (number >= all.size()) return -1;
  const nfsrdma_option out{0, all[number].name, all[number].values, all[number].text};
  return store(out, option, NFSRDMA_LENGTH_TO(nfsrdma_option, text)) ? 0 : -1;
}
