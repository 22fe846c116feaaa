/* Decides when and where to write heap profiles. sites.c counts; pprof.c writes. */
#include "profile.h"

#include "file.h"
#include "hakmem.h"
#include "images.h"
#include "pprof.h"
#include "sample.h"
#include "sites.h"
#include "unwind.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAME_BYTES = 512, STACK_BYTES = 32 << 10 };
_Static_assert((int)HAK_UNWIND_MAX <= (int)HAK_SITE_FRAMES_MAX, "a stack fits a site");

static _Atomic uint64_t started_ns;
static _Atomic uint64_t next_growth; /* bytes in use at which a profile is due */
static _Atomic bool signalled, limit_told;
static bool (*holds_a_lock)(void) HAK_START_DATA;
static unsigned written;                            /* number of profiles; lock: that of profiles */
static char latest_name[NAME_BYTES] HAK_LARGE_DATA; /* of the latest profile; lock: that of profiles */

/* Expand a pattern: %p is the process, and %n counts its profiles. False: the name is too long. */
static bool expand(const char *pattern, char name[NAME_BYTES]) {
  hak_text_t text = hak_text_on(name, NAME_BYTES);
  for (const char *c = pattern; *c; c++) {
    char one[2] = {*c, '\0'};
    if (*c != '%' || c[1] == '\0') {
      hak_text_put(&text, "%s", one);
    } else if (*++c == 'p') {
      hak_text_put(&text, "%zu", (size_t)hak_direct(SYS_getpid));
    } else if (*c == 'n') {
      hak_text_put(&text, "%zu", (size_t)written);
    } else {
      one[0] = *c;
      hak_text_put(&text, "%s%s", *c == '%' ? "" : "%", one);
    }
  }
  return text.length < NAME_BYTES;
}

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), least = strlen(end);
  return length >= least && hak_match_same(name + length - least, end);
}

static hak_profile_facts_t gather(const char *why) {
  hak_profile_facts_t facts = {.resident = hak_resident_look(),
                               .mean_bytes = hak_sample_rate(),
                               .time_ns = hak_os_wall_ns(),
                               .taken = hak_samples.taken,
                               .live = hak_records_live(),
                               .dropped = hak_samples.dropped,
                               .why = why};
  uint64_t since_ns = atomic_load_explicit(&started_ns, memory_order_relaxed);
  facts.duration_ns = since_ns != 0 && facts.time_ns > since_ns ? facts.time_ns - since_ns : 0;
  hak_images_look();
  return facts;
}

/* Returns 0 or an error number. */
static int write_locked(const char *pattern, const char *why) {
  static unsigned char *buffer; /* made with the first profile, and kept */
  written++;
  if (!expand(pattern, latest_name)) {
    return ENAMETOOLONG;
  }
  if (!buffer && !(buffer = hak_meta_alloc(HAK_SINK_BYTES))) {
    return ENOMEM;
  }
  int fd = hak_file_create(latest_name);
  if (fd < 0) {
    return -fd;
  }
  hak_profile_facts_t facts = gather(why);
  hak_sink_t sink = hak_file_sink_on(fd, !ends_with(pattern, ".pb"), buffer);
  hak_pprof_write(&sink, &facts);
  int error = hak_file_sink_end(&sink);
  hak_file_close(fd);
  return error;
}

static const char *file_pattern(void) {
  const char *pattern = hak_option_text(HAK_OPTION_PROFILE_FILE);
  return pattern[0] ? pattern : "hakmem.%p.%n.pb.gz";
}

/* The text for an error that a file operation can cause; NULL for any other. libc's own messages may need memory. */
static const char *words_of(int error) {
  static const struct {
    int error;
    const char *words;
  } known[] = {{ENOENT, "there is no such folder"},
               {ENOTDIR, "there is no such folder"},
               {EACCES, "it may not be written"},
               {EPERM, "it may not be written"},
               {EROFS, "the disk is read-only"},
               {ENOSPC, "the disk is full"},
               {EDQUOT, "the quota is used up"},
               {EFBIG, "the file would be too large"},
               {EISDIR, "it is a folder"},
               {ENAMETOOLONG, "the name is too long"},
               {EMFILE, "too many files are open"},
               {ENFILE, "too many files are open"},
               {ENOMEM, "there is no memory for it"},
               {EIO, "the disk fails"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].error == error) {
      return known[i].words;
    }
  }
  return NULL;
}

/* Write a profile that no caller waits for. A failure is reported on stderr. */
static void write_due(const char *why) {
  hak_lock(&hak_profile_lock);
  int error = write_locked(file_pattern(), why);
  const char *words = words_of(error), *name = error == ENAMETOOLONG ? file_pattern() : latest_name;
  if (words) {
    hak_text_say("hakmem: no profile %s (%s): %s\n", name, why, words);
  } else if (error) {
    hak_text_say("hakmem: no profile %s (%s): error %zu\n", name, why, (size_t)error);
  }
  hak_unlock(&hak_profile_lock);
}

int hak_profile_write(const char *file) {
  int saved = errno;
  hak_lock(&hak_profile_lock);
  int error = write_locked(file ? file : file_pattern(), "asked for");
  hak_unlock(&hak_profile_lock);
  errno = saved;
  return error;
}

int hak_profile_start(size_t mean_bytes) {
  int saved = errno, error = 0;
  mean_bytes = mean_bytes ? mean_bytes : HAK_SAMPLE_MEAN_USUAL;
  if (mean_bytes > HAK_SAMPLE_MEAN_MAX) {
    return EINVAL;
  }
  hak_unwind_start((hak_unwinder_t)hak_option(HAK_OPTION_PROFILE_UNWIND));
  uint64_t none = 0;
  atomic_compare_exchange_strong_explicit(&started_ns, &none, hak_os_wall_ns(), memory_order_relaxed,
                                          memory_order_relaxed);
  error = hak_sample_start(mean_bytes) ? 0 : ENOMEM;
  errno = saved;
  return error;
}

void hak_profile_stop(void) {
  int saved = errno;
  hak_sample_stop();
  errno = saved;
}

static void on_signal(int number) {
  (void)number;
  int saved = errno;
  stack_t stack = {.ss_flags = 0};
  sigaltstack(NULL, &stack);
  bool narrow = (stack.ss_flags & SS_ONSTACK) && stack.ss_size < STACK_BYTES;
  if (narrow || holds_a_lock()) {
    atomic_store_explicit(&signalled, true, memory_order_relaxed);
  } else {
    write_due("signal");
  }
  errno = saved;
}

/* Whether the bytes in use have grown by the option's amount since the earlier profiles. True once for each growth. */
static bool grew(void) {
  uint64_t step = hak_option_size(HAK_OPTION_PROFILE_DUMP_GROWTH);
  if (step == 0) {
    return false;
  }
  uint64_t in_use = (uint64_t)hak_sites_in_use(), due = atomic_load_explicit(&next_growth, memory_order_relaxed);
  if (in_use < (due ? due : step)) {
    return false;
  }
  return atomic_compare_exchange_strong_explicit(&next_growth, &due, in_use + step, memory_order_relaxed,
                                                 memory_order_relaxed);
}

static bool reached_limit(void) {
  size_t percent = hak_option_size(HAK_OPTION_PROFILE_DUMP_LIMIT);
  return percent > 0 && !atomic_load_explicit(&limit_told, memory_order_relaxed) &&
         hak_limit_near(percent, (uint64_t)hak_sites_allocated()) &&
         !atomic_exchange_explicit(&limit_told, true, memory_order_relaxed);
}

void hak_profile_write_due(void) {
  const char *why = NULL;
  if (atomic_load_explicit(&signalled, memory_order_relaxed) &&
      atomic_exchange_explicit(&signalled, false, memory_order_relaxed)) {
    why = "signal";
  } else if (reached_limit()) {
    why = "near a limit of memory";
  } else if (grew()) {
    why = "growth";
  }
  if (why) {
    write_due(why);
  }
}

void hak_profile_refused(size_t bytes) {
  static _Atomic bool said;
  size_t limit = hak_limit_bytes();
  if (hak_option(HAK_OPTION_VERBOSE) && limit && bytes <= (size_t)PTRDIFF_MAX / 2 &&
      !atomic_exchange_explicit(&said, true, memory_order_relaxed)) {
    hak_text_say("hakmem: %zu more bytes are refused: HAKMEM_MEMORY_LIMIT is %zu\n", bytes, limit);
  }
  bool absurd = bytes > (limit ? limit : (size_t)PTRDIFF_MAX / 2); /* it would fail however little is in use */
  if (hak_option(HAK_OPTION_PROFILE_DUMP_LIMIT) > 0 && hak_sample_rate() > 0 && !absurd &&
      !atomic_exchange_explicit(&limit_told, true, memory_order_relaxed)) {
    write_due("memory was refused");
  }
}

static bool writes_now_and_then(void) {
  return hak_option(HAK_OPTION_PROFILE_SIGNAL) || hak_option(HAK_OPTION_PROFILE_DUMP_GROWTH) ||
         hak_option(HAK_OPTION_PROFILE_DUMP_LIMIT);
}

static bool writes_at_exit(void) {
  int64_t wanted = hak_option(HAK_OPTION_PROFILE_EXIT);
  return wanted == HAK_OPTION_AUTO ? hak_option_text(HAK_OPTION_PROFILE_FILE)[0] && !writes_now_and_then()
                                   : wanted == 1;
}

/* Whether a handler that returns from this signal gets it again at once. */
static bool is_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

void hak_profile_start_up(bool (*holds_lock)(void)) {
  int64_t mean_bytes = hak_option(HAK_OPTION_PROFILE_RATE);
  holds_a_lock = holds_lock;
  if (mean_bytes == 0 || (mean_bytes == HAK_OPTION_AUTO && !writes_now_and_then() && !writes_at_exit())) {
    return;
  }
  int number = (int)hak_option(HAK_OPTION_PROFILE_SIGNAL);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigfillset(&action.sa_mask);
  if (number && (is_fault(number) || sigaction(number, &action, NULL) != 0)) {
    hak_text_say("hakmem: warning: HAKMEM_PROFILE_SIGNAL=%zu: cannot use this signal; SIGUSR1 is %zu\n", (size_t)number,
                 (size_t)SIGUSR1);
  }
  if (ends_with(file_pattern(), ".folded") || ends_with(file_pattern(), ".txt")) {
    hak_text_say("hakmem: warning: HAKMEM_PROFILE_FILE=%s: every profile is for pprof (.pb.gz, .pb); hak heap profile "
                 "writes text\n",
                 file_pattern());
  }
  if (hak_option(HAK_OPTION_PROFILE_DUMP_LIMIT)) {
    hak_limit_watch("/sys/fs/cgroup", "/proc/self");
  }
  hak_profile_start(mean_bytes == HAK_OPTION_AUTO ? 0 : (size_t)mean_bytes);
}

void hak_profile_at_exit(bool inside) {
  bool due = writes_at_exit() && atomic_load_explicit(&started_ns, memory_order_relaxed) != 0;
  if (due && inside) {
    hak_text_say("hakmem: no profile at exit: a signal handler ended the process during a call of the heap\n");
  } else if (due) {
    write_due("at exit");
  }
}
