// The client's side of a session's slot table (RFC 8881 2.10.6.1): which slots are free, which have a request
// under way, and which ended with a request whose outcome is unknown.
//
// A slot in use is a SlotTable::Use. A Use ends in one of four ways, and another request may get the slot
// after two of them only:
//   answered     the server has executed the request, or its cached Reply came: the sequence id is used up
//   unsent       the server has certainly not executed the request: the sequence id is still to be used
//   unanswered   a request left, and nobody waits for its Reply any more. No request gets the slot, because the
//                server could answer it with the Reply to the first one (2.10.6.1.3), but somebody may ask the
//                server what became of that (on_unanswered, ask_again()), and then the slot is usable again.
//                A Use that is destroyed before it has ended, as with a task that is dropped while it waits,
//                ends so.
//   retired      the Reply cannot be used (RFC 8267 4.5), or the server does not know the slot. No request gets
//                the slot until the session is replaced.
//
// Pure: no loop, no clock, no I/O. Confined to one thread. A Use may outlive its session and the table's next
// reset(), but not the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace nfsrdma::nfs4 {

class SlotTable {
 public:
  /// Begins a new session with `count` slots. A Use of an earlier session changes no slot any more.
  void reset(std::uint32_t count);
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }

  /// A request's hold on a slot. Movable; an object that was moved from does nothing.
  class Use {
   public:
    Use(Use&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), slot_(other.slot_), generation_(other.generation_) {}
    Use& operator=(Use&& other) noexcept {
      if (this == &other) return *this;
      end(End::unanswered);
      table_ = std::exchange(other.table_, nullptr);
      slot_ = other.slot_;
      generation_ = other.generation_;
      return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (table_ != nullptr) end(End::unanswered);
    }
    void answered() { end(End::answered); }
    void unsent() { end(End::unsent); }
    void retire() { end(End::retired); }
    /// Returns whether this is the Use that ask_again() has given out.
    [[nodiscard]] bool is_question() const {
      return table_ != nullptr && current() && table_->slots_[slot_].retired;
    }
    [[nodiscard]] std::uint32_t slot() const { return slot_; }
    /// Whether the slot belongs to the present session.
    [[nodiscard]] bool current() const { return table_ != nullptr && generation_ == table_->generation_; }
    [[nodiscard]] std::uint32_t sequence() const { return table_->slots_[slot_].sequence; }

   private:
    friend class SlotTable;
    enum class End : unsigned char { answered, unsent, unanswered, retired };
    Use(SlotTable& table, std::uint32_t slot) : table_(&table), slot_(slot), generation_(table.generation_) {}
    void end(End how);
    SlotTable* table_;
    std::uint32_t slot_;
    std::uint64_t generation_;
  };
  /// Takes the lowest free slot, because low numbers let the server shrink its table. Returns none if no slot
  /// is free.
  std::optional<Use> take();
  /// Returns the slot of an unanswered request, with that request's sequence id, for a SEQUENCE that asks what became of
  /// it. If this Use is answered, the slot is free. If it ends in any other way, the slot is retired for good. Returns
  /// none if the session has been replaced since `generation`.
  std::optional<Use> ask_again(std::uint32_t slot, std::uint64_t generation);
  /// Returns a number that grows with each session.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] bool has_free() const { return find_free().has_value(); }
  [[nodiscard]] std::uint32_t busy() const;
  [[nodiscard]] std::uint32_t retired() const { return retired_; }
  /// Returns the number of Uses of earlier sessions that have not ended.
  [[nodiscard]] std::uint32_t left_over() const { return left_over_; }
  /// Whether so many of the usable slots are retired that the session should be replaced.
  [[nodiscard]] bool is_spent() const;

  /// The highest slot with a request under way (sa_highest_slotid). It falls again when that request is
  /// answered.
  [[nodiscard]] std::uint32_t highest_busy() const { return highest_busy_; }
  /// Sets the highest slot that the server wishes to be used (sr_target_highest_slotid).
  void set_target(std::uint32_t highest) {
    target_ = highest;
    look_if_spent();
  }
  /// CB_RECALL_SLOT: the server wishes fewer slots to be used.
  void lower_target(std::uint32_t highest) {
    if (highest < target_) set_target(highest);
  }
  [[nodiscard]] std::uint32_t target() const { return target_; }
  /// NFS4ERR_BADSLOT: the server's table ends before `slot`, whatever target it has given.
  void cut(std::uint32_t slot) {
    if (slot < end_) end_ = slot;
    look_if_spent();
  }

  /// Called when a Use has ended: its slot is free again (on_free), or was retired (on_retired). Neither is
  /// called by reset(), which frees all slots at once; the caller of reset() acts on that itself.
  std::function<void()> on_free, on_retired;
  /// Called when a Use has ended unanswered. Returns true if ask_again() will be called for the slot, which then does not
  /// count for is_spent() until the answer is there.
  std::function<bool(std::uint32_t slot)> on_unanswered;
  /// Called when a Use of an earlier session has ended.
  std::function<void()> on_left_over_ended;
  /// Called when is_spent() holds after a change that may have caused it.
  std::function<void()> on_spent;

 private:
  struct Slot {
    std::uint32_t sequence = 1;  // sequence id of the next request
    bool busy = false;
    bool retired = false;  // no request gets it
    bool asked = false;    // retired, and the server is being asked what became of the last request
  };
  static constexpr std::uint32_t kWord = 64;
  void note_free(std::uint32_t slot, bool is_free) {
    const std::uint64_t bit = std::uint64_t{1} << (slot % kWord);
    std::uint64_t& word = free_[slot / kWord];
    word = is_free ? word | bit : word & ~bit;
  }
  [[nodiscard]] std::optional<std::uint32_t> find_free() const;
  [[nodiscard]] std::uint32_t usable() const;
  void give_back(std::uint32_t slot);
  void look_if_spent() const {
    if (on_spent && is_spent()) on_spent();
  }

  std::vector<Slot> slots_;
  std::vector<std::uint64_t> free_;  // one bit for each slot: neither busy nor retired
  std::uint64_t generation_ = 0;
  std::uint32_t highest_busy_ = 0;
  std::uint32_t target_ = ~0U;
  std::uint32_t end_ = ~0U;
  std::uint32_t retired_ = 0;
  std::uint32_t left_over_ = 0;
};

}  // namespace nfsrdma::nfs4
