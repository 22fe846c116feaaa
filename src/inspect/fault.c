/* The fault handler. If the address lies in the pool of guarded blocks, it reports the block. Then the program's
 * handler runs, or the fault ends the process as usual. */
#include "guard.h"

#include "modules.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static struct sigaction before HAK_LARGE_DATA;
static _Atomic bool reporting;

typedef struct access {
  uintptr_t pc, frame;
  const char *kind;
} access_t;

static access_t access_of(const ucontext_t *context) {
#if defined(__x86_64__)
  const greg_t *registers = context->uc_mcontext.gregs;
  enum { IS_WRITE = 2 };
  return (access_t){(uintptr_t)registers[REG_RIP], (uintptr_t)registers[REG_RBP],
                    registers[REG_ERR] & IS_WRITE ? "write" : "read"};
#elif defined(__aarch64__)
  enum { FRAME_POINTER = 29 };
  return (access_t){context->uc_mcontext.pc, context->uc_mcontext.regs[FRAME_POINTER], "access"};
#else
  (void)context;
  return (access_t){0, 0, "access"};
#endif
}

static hak_guard_event_t event_of(const access_t *access) {
  hak_guard_event_t event = {.thread = hak_lock_id, .count = access->pc != 0, .pcs = {access->pc}};
  uintptr_t at = access->frame, last = 0, pc;
  while (event.count > 0 && event.count < HAK_GUARD_FRAMES && at > last && !hak_os_is_filtered() &&
         hak_modules_is_code(pc = hak_os_word_at(at + sizeof at))) {
    event.pcs[event.count++] = pc;
    last = at;
    at = hak_os_word_at(at);
  }
  return event;
}

static void say(const hak_guard_slot_t *slot, const char *address, const access_t *access) {
  const char *what = "overflow", *where = "behind the end", *start = slot->block, *end = start + slot->bytes;
  size_t distance = (size_t)(address - end);
  if (address < end) {
    what = address < start ? "underflow" : "use after free";
    where = address < start ? "before the start" : "behind the start";
    distance = (size_t)(address < start ? start - address : address - start);
  }
  if (slot->state == HAK_GUARD_FREED) {
    what = "use after free";
  }
  if (slot->state == HAK_GUARD_UNUSED) {
    hak_text_say("hakmem: %s of guarded memory at 0x%zx, where no block has ever been\n", access->kind,
                 (uintptr_t)address);
  } else {
    hak_text_say("hakmem: %s: %s at 0x%zx, %zu bytes %s of a block\n", what, access->kind, (uintptr_t)address, distance,
                 where);
  }
  hak_guard_event_t accessed = event_of(access);
  hak_guard_say_event("accessed", &accessed);
  hak_guard_explain(slot);
}

/* Act as if this handler did not exist. On return the instruction runs and faults again, or a signal that was sent
 * comes again. */
static void pass_on(int number, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    bool sent = info->si_code <= 0;
    if (sent && before.sa_handler == SIG_IGN) {
      return;
    }
    sigaction(number, &fallback, NULL);
    if (sent) {
      hak_direct(SYS_tgkill, hak_direct(SYS_getpid), hak_direct(SYS_gettid), number);
    }
  }
}

static void on_fault(int number, siginfo_t *info, void *context) {
  int saved = errno;
  const hak_guard_slot_t *slot = info->si_code > 0 ? hak_guard_slot_of(info->si_addr) : NULL;
  if (slot && !atomic_exchange(&reporting, true)) {
    access_t access = access_of(context);
    say(slot, info->si_addr, &access);
    atomic_store(&reporting, false);
  }
  errno = saved;
  pass_on(number, info, context);
}

bool hak_fault_watch(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  if (sigaction(SIGSEGV, NULL, &before) != 0) {
    return false;
  }
  action.sa_sigaction = on_fault;
  action.sa_mask = before.sa_mask;
  action.sa_flags |= before.sa_flags & (SA_NODEFER | SA_RESTART);
  return sigaction(SIGSEGV, &action, NULL) == 0;
}
