#include "fabric/verbs/connector.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

namespace nfsrdma::fabric::verbs {

struct Connector::Shared {
  std::shared_ptr<Endpoint> endpoint;
  std::vector<std::byte> private_data;
  int done = -1;
  std::atomic<int> result = 0;

  Shared(std::shared_ptr<Endpoint> endpoint_in, std::vector<std::byte> private_data_in)
      : endpoint(std::move(endpoint_in)),
        private_data(std::move(private_data_in)),
        done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Shared() {
    if (done >= 0) ::close(done);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void run() {
    rdma_conn_param parameters = endpoint->parameters(private_data);
    result = endpoint->lib.connect(endpoint->id, &parameters) == 0 ? 0 : errno;
    endpoint.reset();
    (void)::eventfd_write(done, 1);
  }
};

std::unique_ptr<Connector> Connector::start(std::shared_ptr<Endpoint> endpoint,
                                            std::vector<std::byte> private_data) {
  auto shared = std::make_shared<Shared>(std::move(endpoint), std::move(private_data));
  if (shared->done < 0) return nullptr;
  // Block all signals in the thread: they are meant for the program's own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread([shared] { shared->run(); }).detach();
  } catch (const std::system_error& failed) {
    errno = failed.code().value();
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return nullptr;
  return std::unique_ptr<Connector>(new Connector(std::move(shared)));
}

Connector::~Connector() = default;

int Connector::descriptor() const {
  return shared_->done;
}

int Connector::result() const {
  return shared_->result;
}

}  // namespace nfsrdma::fabric::verbs
