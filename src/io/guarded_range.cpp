#include "guarded_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace regauge::io {

// Slots are never freed, so that the handler can walk their list at any time. `version` is odd
// while the bounds change.
struct GuardSlot {
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<std::uint64_t> version{0};
  std::atomic<bool> lost{false};
  std::atomic<bool> used{true};
  GuardSlot* next = nullptr;
};

namespace {

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<GuardSlot*>::is_always_lock_free);

// What the signal says of an address that the file has no bytes for.
#if defined(__APPLE__) && defined(__aarch64__)
constexpr int kBeyondFile = BUS_ADRALN;  // of every address, in XNU's bsd/dev/arm/unix_signal.c
#else
constexpr int kBeyondFile = BUS_ADRERR;
#endif

std::atomic<GuardSlot*> guard_slots{nullptr};
std::uintptr_t guard_page = 4096;
struct sigaction handler_before = {};

// Holds the slot that contains the address, and where its range ends.
GuardSlot* slot_of(std::uintptr_t address, std::uintptr_t& end) {
  for (GuardSlot* slot = guard_slots; slot != nullptr; slot = slot->next) {
    const std::uint64_t version = slot->version;
    const std::uintptr_t begin = slot->begin;
    end = slot->end;
    const bool settled = version % 2 == 0 && version == slot->version;
    if (settled && begin <= address && address < end) return slot;
  }
  return nullptr;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    // The instruction fails again when this returns, and ends the process.
    ::signal(signal, SIG_DFL);
    if (info->si_code <= 0) ::raise(signal);  // sent by a process, not by an instruction
  }
}

// Calls system functions only, as a handler has to.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  std::uintptr_t end = 0;
  GuardSlot* slot = info->si_code == kBeyondFile ? slot_of(address, end) : nullptr;
  if (slot != nullptr) {
    const std::uintptr_t first = address / guard_page * guard_page;
    void* zeros = ::mmap(reinterpret_cast<void*>(first), end - first, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    slot->lost = true;
    if (zeros != MAP_FAILED) {
      errno = error;
      return;
    }
  }
  pass_on(signal, info, context);
  errno = error;
}

void install_handler() {
  guard_page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction guard = {};
  guard.sa_sigaction = on_bus_error;
  guard.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&guard.sa_mask);
  ::sigaction(SIGBUS, &guard, &handler_before);
}

GuardSlot* free_slot() {
  for (GuardSlot* slot = guard_slots; slot != nullptr; slot = slot->next) {
    bool expected = false;
    if (slot->used.compare_exchange_strong(expected, true)) return slot;
  }
  auto* slot = new GuardSlot;
  slot->next = guard_slots;
  while (!guard_slots.compare_exchange_weak(slot->next, slot)) {
  }
  return slot;
}

void set_bounds(GuardSlot& slot, std::uintptr_t begin, std::uintptr_t end) {
  ++slot.version;
  slot.begin = begin;
  slot.end = end;
  ++slot.version;
}

}  // namespace

GuardedRange::GuardedRange(const void* begin, std::size_t length) : slot_(free_slot()) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  slot_->lost = false;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  set_bounds(*slot_, first, first + length);
}

GuardedRange::~GuardedRange() {
  set_bounds(*slot_, 0, 0);
  slot_->used = false;
}

bool GuardedRange::lost() const { return slot_->lost; }

}  // namespace regauge::io
