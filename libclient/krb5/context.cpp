#include "krb5/context.h"

#include <gssapi/gssapi_ext.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "krb5/status.h"

namespace nfsrdma::krb5 {
namespace {

using namespace std::chrono_literals;
using xdr::ConstBytes;

gss_iov_buffer_desc buffer(OM_uint32 type, ConstBytes bytes) {
  return {
      type,
      {bytes.size(), const_cast<std::byte*>(bytes.data())}};  // NOLINT: only read, where it is the caller's
}
ConstBytes bytes_of(const gss_buffer_desc& text) {
  return {static_cast<const std::byte*>(text.value), text.length};
}

Error failed(Status status) {
  const bool ended = GSS_ROUTINE_ERROR(status.major) == GSS_S_CONTEXT_EXPIRED ||
                     GSS_ROUTINE_ERROR(status.major) == GSS_S_CREDENTIALS_EXPIRED;
  return {ErrorKind::local, ended ? EKEYEXPIRED : EIO, "Kerberos", "", text_of(status)};
}

class Context final : public gss::Context {
 public:
  Context(async::Loop& loop, Established established, async::TimePoint now)
      : loop_(loop), given_(std::move(established)) {
    if (given_.seconds == GSS_C_INDEFINITE) {
      end_ = soon_ = async::TimePoint::max();
      return;
    }
    const async::Clock::duration life = std::chrono::seconds(given_.seconds);
    end_ = now + life;
    soon_ =
        end_ - std::clamp<async::Clock::duration>(life / 10, std::min<async::Clock::duration>(life, 2s), 60s);
  }

  [[nodiscard]] ConstBytes handle() const override { return given_.handle; }
  [[nodiscard]] std::uint32_t window() const override { return given_.window; }
  [[nodiscard]] bool ends_soon() const override { return loop_.now() >= soon_; }
  [[nodiscard]] bool has_ended() const override { return ended_ || loop_.now() >= end_; }

  Result<gss::Octets> sign(gss::Pieces message) override {
    auto& iov = signed_by(message, {});
    Status status;
    status.major = ::gss_get_mic_iov(&status.minor, given_.context.get(), GSS_C_QOP_DEFAULT, iov.data(),
                                     static_cast<int>(iov.size()));
    if (!status.ok()) return fails(status);
    const ConstBytes code = bytes_of(iov.back().buffer);
    gss::Octets out(code.begin(), code.end());
    OM_uint32 minor = 0;
    (void)::gss_release_iov_buffer(&minor, iov.data(), static_cast<int>(iov.size()));
    return out;
  }

  [[nodiscard]] bool is_signed(gss::Pieces message, ConstBytes code) override {
    auto& iov = signed_by(message, code);
    OM_uint32 minor = 0;
    return ::gss_verify_mic_iov(&minor, given_.context.get(), nullptr, iov.data(),
                                static_cast<int>(iov.size())) == GSS_S_COMPLETE;
  }

  // The message is copied into `out` first, because GSSAPI encrypts in place.
  nfsrdma::Status wrap(gss::Pieces message, xdr::Buffer& out) override {
    std::size_t size = 0;
    for (const ConstBytes& piece : message) size += piece.size();
    std::array iov{gss_iov_buffer_desc{GSS_IOV_BUFFER_TYPE_HEADER, {}},
                   gss_iov_buffer_desc{GSS_IOV_BUFFER_TYPE_DATA, {size, nullptr}},
                   gss_iov_buffer_desc{GSS_IOV_BUFFER_TYPE_PADDING, {}},
                   gss_iov_buffer_desc{GSS_IOV_BUFFER_TYPE_TRAILER, {}}};
    constexpr int kPrivate = 1;
    const auto count = static_cast<int>(iov.size());
    Status status;
    status.major = ::gss_wrap_iov_length(&status.minor, given_.context.get(), kPrivate, GSS_C_QOP_DEFAULT,
                                         nullptr, iov.data(), count);
    if (!status.ok()) return fails(status);
    std::size_t total = 0;
    for (const gss_iov_buffer_desc& one : iov) total += one.buffer.length;
    std::byte* at = out.extend(total);
    for (gss_iov_buffer_desc& one : iov) {
      one.buffer.value = at;
      at += one.buffer.length;
    }
    at = static_cast<std::byte*>(iov[1].buffer.value);
    for (const ConstBytes& piece : message) at = std::copy(piece.begin(), piece.end(), at);
    int sealed = 0;
    status.major = ::gss_wrap_iov(&status.minor, given_.context.get(), kPrivate, GSS_C_QOP_DEFAULT, &sealed,
                                  iov.data(), count);
    if (!status.ok()) return fails(status);
    if (sealed == 0)
      return Error(ErrorKind::local, EIO, "Kerberos", "", "the context cannot encrypt; use sec=krb5i");
    return {};
  }

  Result<ConstBytes> unwrap(std::span<std::byte> wrapped) override {
    std::array iov{buffer(GSS_IOV_BUFFER_TYPE_STREAM, wrapped),
                   gss_iov_buffer_desc{GSS_IOV_BUFFER_TYPE_DATA, {}}};
    int sealed = 0;
    Status status;
    status.major = ::gss_unwrap_iov(&status.minor, given_.context.get(), &sealed, nullptr, iov.data(),
                                    static_cast<int>(iov.size()));
    if (status.major != GSS_S_COMPLETE) return failed(status);
    if (sealed == 0) return Error(ErrorKind::protocol, EPROTO, "Kerberos", "", "the reply is not encrypted");
    return bytes_of(iov[1].buffer);
  }

 private:
  /// Lists the pieces and the code for GSSAPI. `code`: empty if GSSAPI is to make it.
  static std::vector<gss_iov_buffer_desc>& signed_by(gss::Pieces message, ConstBytes code) {
    thread_local std::vector<gss_iov_buffer_desc> iov;
    iov.clear();
    for (const ConstBytes& piece : message) iov.push_back(buffer(GSS_IOV_BUFFER_TYPE_DATA, piece));
    iov.push_back(code.empty()
                      ? gss_iov_buffer_desc{GSS_IOV_BUFFER_TYPE_MIC_TOKEN | GSS_IOV_BUFFER_FLAG_ALLOCATE, {}}
                      : buffer(GSS_IOV_BUFFER_TYPE_MIC_TOKEN, code));
    return iov;
  }
  Error fails(Status status) {
    Error out = failed(status);
    ended_ = ended_ || out.errno_value() == EKEYEXPIRED;
    return out;
  }

  async::Loop& loop_;
  const Established given_;
  async::TimePoint soon_, end_;
  bool ended_ = false;
};

}  // namespace

void DeleteContext::operator()(gss_ctx_id_t context) const {
  OM_uint32 minor = 0;
  (void)::gss_delete_sec_context(&minor, &context, GSS_C_NO_BUFFER);
}

std::shared_ptr<gss::Context> make_context(async::Loop& loop, Established established, async::TimePoint now) {
  return std::make_shared<Context>(loop, std::move(established), now);
}

}  // namespace nfsrdma::krb5
