// The procedures of NFSv3 (RFC 1813), and what of the MOUNT protocol a client needs: a path's handle.
#pragma once

#include "responder/answers.h"
#include "responder/coding.h"

namespace nfsrdma::bench {

/// The argument of a WRITE: in the stream, or beside it.
xdr::ConstBytes read_data(In& in, const Placed* placed);
/// There is room for it.
void set_data(Node& node, std::uint64_t offset, xdr::ConstBytes data);
/// The result of a READ: its count, and the bytes beside the stream. Gives how many there are.
std::size_t put_data(xdr::Encoder& out, Reply& reply, Node& node, const Access& access, std::uint64_t offset,
                     std::uint32_t count);

class Version3 {
 public:
  static constexpr std::uint32_t kWrite = 7;

  Version3(Tree& tree, std::uint64_t boot, Access& access, In& in, const Placed* placed, Identity caller,
           Reply& reply)
      : tree_(tree),
        boot_(boot),
        access_(access),
        in_(in),
        placed_(placed),
        caller_(caller),
        reply_(reply),
        out_(reply.message) {}

  /// False: it is not served.
  bool run(std::uint32_t procedure);
  bool mount(std::uint32_t procedure);

 private:
  void attributes(const Node& node);
  void post_attributes(const Node* node);
  void weak_data(const Node& node);
  void take_attributes(Node* node);
  void refuse(std::uint32_t status, unsigned empty_words);
  void look_up();
  void read();
  void write();
  void create(bool is_directory);
  void remove();
  void rename();
  void read_directory(bool is_plus);
  void facts(std::uint32_t procedure, const Node& node);

  Tree& tree_;
  const std::uint64_t boot_;
  Access& access_;
  In& in_;
  const Placed* const placed_;
  const Identity caller_;
  Reply& reply_;
  xdr::Encoder out_;
};

}  // namespace nfsrdma::bench
