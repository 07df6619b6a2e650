// What args_test.cpp and results_test.cpp share: a value of any type behind one
// interface, and the checks on it, which are compiled once (in args_test.cpp). Two files, because
// each of them instantiates the codecs of half of the protocol.
#pragma once

#include <cstdint>
#include <memory>

#include "support/random_value.h"

namespace nfsrdma::test {

/// A value of some type. See check_codec().
struct AnyValue {
  virtual ~AnyValue() = default;
  virtual void fill(test::Filler& random) = 0;
  virtual void encode(xdr::Encoder& out) const = 0;
  virtual bool decode(xdr::Decoder& in) = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual bool same(const AnyValue& other) const = 0;
  [[nodiscard]] virtual xdr::Bounds bounds() const = 0;
  [[nodiscard]] virtual std::unique_ptr<AnyValue> another() const = 0;
};

template <class T>
struct ValueOf final : AnyValue {
  T value{};
  void fill(test::Filler& random) override { test::fill(random, value); }
  void encode(xdr::Encoder& out) const override { xdr::encode(out, value); }
  bool decode(xdr::Decoder& in) override { return xdr::decode(in, value); }
  [[nodiscard]] std::uint64_t size() const override { return xdr::encoded_size(value); }
  [[nodiscard]] bool same(const AnyValue& other) const override {
    return test::same(value, static_cast<const ValueOf&>(other).value);
  }
  [[nodiscard]] xdr::Bounds bounds() const override { return xdr::bounds<T>; }
  [[nodiscard]] std::unique_ptr<AnyValue> another() const override { return std::make_unique<ValueOf>(); }
};

/// Random values of this type survive encoding and decoding; their truncations are faults; garbage does no
/// harm.
void check_codec(const char* name, AnyValue&& value);

}  // namespace nfsrdma::test
