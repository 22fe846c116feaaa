/* jemalloc's arenas by mallctl and mallocx. The first part asserts what jemalloc 5.3 does as well, and runs with it too
 * where it is installed. The second part is about regions: there, an argument says whether a library behind hakmem's
 * has a mallctl of its own (mallctl_next.c). */
#include "check.h"
#include "hakmem.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);
extern int mallctlnametomib(const char *name, size_t *mib, size_t *depth);
extern int mallctlbymib(const size_t *mib, size_t depth, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);
extern void *mallocx(size_t bytes, int flags), *rallocx(void *block, size_t bytes, int flags);
extern void dallocx(void *block, int flags);
/* With jemalloc there are none. */
#pragma weak hak_region_of
#pragma weak hak_region_new
#pragma weak hak_region_enter
#pragma weak hak_region_leave
#pragma weak hak_region_name
#pragma weak hak_region_usage
#pragma weak hak_region_destroy

enum { ZERO = 64, NO_CACHE = 1 << 8, THREADS = 4, ROUNDS = 200, MOST = 4094 };

static int arena_flag(unsigned index) {
  return (int)((index + 1) << 20) | NO_CACHE; /* jemalloc's cache would hold blocks of arenas that are gone */
}

static int call(const char *form, unsigned index) {
  char name[64];
  snprintf(name, sizeof name, form, index);
  return mallctl(name, NULL, NULL, NULL, 0);
}

static unsigned number(const char *name) {
  unsigned value = UINT32_MAX;
  size_t bytes = sizeof value;
  CHECK(mallctl(name, &value, &bytes, NULL, 0) == 0 && bytes == sizeof value);
  return value;
}

static int bind_thread(unsigned index) {
  return mallctl("thread.arena", NULL, NULL, &index, sizeof index);
}

static void errors(void) {
  unsigned arena = number("arenas.create"), wrong = 0;
  uint64_t wide = 0;
  size_t bytes = sizeof wide;
  CHECK(arena > 0 && number("arenas.narenas") == arena + 1);
  CHECK(mallctl("arenas.create", &wide, &bytes, NULL, 0) == EINVAL && bytes == 0);
  bytes = sizeof wide;
  CHECK(mallctl("arenas.narenas", &wide, &bytes, NULL, 0) == EINVAL && bytes == 4 && wide == arena + 1);
  bytes = 2;
  CHECK(mallctl("arenas.narenas", &wide, &bytes, NULL, 0) == EINVAL && bytes == 2);
  CHECK(mallctl("arenas.narenas", NULL, NULL, &wrong, sizeof wrong) == EPERM);
  CHECK(mallctl("arenas.narenas", NULL, NULL, NULL, 0) == 0);
  CHECK(call("arena.%u.reset", 0) == EFAULT && call("arena.%u.destroy", 0) == EFAULT);
  CHECK(call("arena.%u.reset", arena + 1) == EFAULT && call("arena.%u.reset", arena + 2) == ENOENT);
  static const char *const unknown[] = {"",
                                        "arena",
                                        "arenas",
                                        "nosuch",
                                        "arena.x.reset",
                                        "arena..reset",
                                        "arena.1.nosuch",
                                        "arenas.create.x",
                                        "arena.-1.reset",
                                        "arena.99999999999999999999.reset"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    CHECK(mallctl(unknown[i], NULL, NULL, NULL, 0) == ENOENT);
  }
  char name[32];
  snprintf(name, sizeof name, "arena.%u.reset", arena);
  bytes = sizeof wrong;
  CHECK(mallctl(name, &wrong, &bytes, NULL, 0) == EPERM && mallctl(name, NULL, NULL, &wrong, sizeof wrong) == EPERM);
  CHECK(call("arena.%u.reset", arena) == 0);
  CHECK(bind_thread(arena) == 0 && number("thread.arena") == arena && call("arena.%u.destroy", arena) == EFAULT);
  CHECK(bind_thread(MOST) == EFAULT && number("thread.arena") == arena && bind_thread(0) == 0);
  CHECK(number("thread.arena") == 0 && mallctl("thread.arena", NULL, NULL, &wide, sizeof wide) == EINVAL);
  CHECK(call("arena.%u.destroy", arena) == 0);
  CHECK(call("arena.%u.destroy", arena) == EFAULT);
  CHECK(call("arena.%u.reset", arena) == EFAULT);
  CHECK(number("arenas.create") == arena && number("arenas.narenas") == arena + 1); /* the index serves again */
  CHECK(call("arena.%u.destroy", arena) == 0);
}

static void numbers_of_names(void) {
  size_t mib[6] = {7, 7, 7, 7, 7, 7}, depth = 2;
  unsigned arena = number("arenas.create"), value = 0;
  size_t bytes = sizeof value;
  CHECK(mallctlnametomib("arena.0.reset", mib, &depth) == 0 && depth == 2 && mib[1] == 0 && mib[2] == 7);
  depth = 6;
  CHECK(mallctlnametomib("arena.0.reset", mib, &depth) == 0 && depth == 3 && mib[3] == 7);
  CHECK(mallctlbymib(mib, 3, NULL, NULL, NULL, 0) == EFAULT && mallctlbymib(mib, 2, NULL, NULL, NULL, 0) == ENOENT);
  mib[1] = arena;
  CHECK(mallctlbymib(mib, 3, NULL, NULL, NULL, 0) == 0);
  mib[1] = arena + 2;
  CHECK(mallctlbymib(mib, 3, NULL, NULL, NULL, 0) == ENOENT);
  CHECK(mallctlnametomib("nosuch", mib, &depth) == ENOENT && mallctlnametomib("arena.x.reset", mib, &depth) == ENOENT);
  depth = 6;
  CHECK(mallctlnametomib("arenas.narenas", mib, &depth) == 0 && depth == 2);
  CHECK(mallctlbymib(mib, depth, &value, &bytes, NULL, 0) == 0 && value == arena + 1);
  CHECK(call("arena.%u.destroy", arena) == 0);
}

static void names(void) {
  unsigned arena = number("arenas.create");
  char form[32], buffer[32], *into = buffer;
  const char *fresh = "a name of more than thirty-two bytes in all";
  size_t bytes = sizeof(void *), four = 4;
  snprintf(form, sizeof form, "arena.%u.name", arena);
  int error = mallctl(form, &into, &bytes, NULL, 0);
  if (error != ENOENT || hak_region_of) { /* jemalloc before 5.3.1 has no names */
    CHECK(error == 0 && strchr(buffer, '_') && mallctl(form, &into, &four, NULL, 0) == EINVAL);
    CHECK(mallctl(form, NULL, NULL, &fresh, sizeof(void *)) == 0 && mallctl(form, &into, &bytes, NULL, 0) == 0);
    CHECK(strlen(buffer) == 31 && strncmp(buffer, fresh, 31) == 0);
    CHECK(mallctl("arena.0.name", &into, &bytes, NULL, 0) == 0 && strcmp(buffer, "auto_0") == 0);
  }
  CHECK(call("arena.%u.destroy", arena) == 0);
}

static void *worker(void *argument) {
  for (int round = 0; round < ROUNDS; round++) {
    unsigned arena = number("arenas.create");
    unsigned char *blocks[10];
    for (int i = 0; i < 10; i++) {
      blocks[i] = mallocx(1000 + 30000 * (size_t)i, arena_flag(arena) | ZERO);
      CHECK(blocks[i] && blocks[i][0] == 0 && blocks[i][999] == 0);
      memset(blocks[i], (int)(size_t)argument + 1, 1000);
    }
    dallocx(blocks[0], NO_CACHE);
    CHECK((blocks[1] = rallocx(blocks[1], 100000, arena_flag(arena))) && blocks[1][999] == (size_t)argument + 1);
    CHECK(round % 2 || (bind_thread(arena) == 0 && number("thread.arena") == arena && bind_thread(0) == 0));
    CHECK(round % 3 || call("arena.%u.reset", arena) == 0);
    CHECK(call("arena.%u.destroy", arena) == 0);
  }
  return NULL;
}

static void threads(void) {
  pthread_t started[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&started[i], NULL, worker, (void *)i) == 0);
  }
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      unsigned arena = number("arenas.create");
      _exit(mallocx(100, arena_flag(arena)) && call("arena.%u.destroy", arena) == 0 ? 0 : 1);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(started[i], NULL) == 0);
  }
}

static void regions(void) {
  unsigned arena = number("arenas.create"), other = number("arenas.create");
  char form[32];
  const char *name = "tenant";
  char *block = mallocx(100, arena_flag(arena)), *wide = mallocx(100, arena_flag(arena) | 12 | ZERO);
  hak_region_t *region = hak_region_of(block);
  CHECK(region && hak_region_of(wide) == region && (uintptr_t)wide % 4096 == 0 && strchr(hak_region_name(region), '_'));
  snprintf(form, sizeof form, "arena.%u.name", arena);
  CHECK(mallctl(form, NULL, NULL, &name, sizeof(void *)) == 0 && strcmp(hak_region_name(region), "tenant") == 0);
  CHECK(mallctl("arena.0.name", NULL, NULL, &name, sizeof(void *)) == EFAULT);
  CHECK(mallctl("arenas.create", NULL, NULL, NULL, 0) == EINVAL); /* jemalloc 5.3.0 crashes */
  CHECK(mallctl("arenas.create", &other, &(size_t){sizeof other}, &region, sizeof(void *)) == EPERM); /* hooks */
  CHECK((block = rallocx(block, 5000, 0)) && hak_region_of(block) == region);                         /* it stays */
  CHECK((block = rallocx(block, 100, 6)) && hak_region_of(block) == region && (uintptr_t)block % 64 == 0);
  CHECK((block = rallocx(block, 200, arena_flag(other))) && hak_region_of(block) != region && hak_region_of(block));
  CHECK((block = rallocx(block, 200, arena_flag(arena) | 6)) && hak_region_of(block) == region);
  free(block);
  CHECK((block = mallocx(100, 0)) && !hak_region_of(block));
  CHECK((block = rallocx(block, 200, arena_flag(arena))) && hak_region_of(block) == region);
  free(mallocx(100, arena_flag(0)));
  CHECK((block = mallocx(100, arena_flag(MOST))) && !hak_region_of(block)); /* it was never given: no effect */
  free(block);

  CHECK(bind_thread(arena) == 0 && bind_thread(other) == 0 && hak_region_of(block = malloc(100)) != region);
  CHECK(bind_thread(arena) == 0 && hak_region_of(wide = malloc(100)) == region);
  pid_t child = fork();
  int status;
  if (child == 0) { /* it goes on in the child */
    _exit(number("thread.arena") == arena && hak_region_of(malloc(10)) == region && bind_thread(0) == 0 ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK(bind_thread(0) == 0 && hak_region_of(wide = malloc(100)) == NULL);
  free(wide);

  hak_region_t *mine = hak_region_new(NULL);
  CHECK(hak_region_enter(mine) && number("thread.arena") == 0 && bind_thread(arena) == EAGAIN);
  hak_region_leave(mine);
  hak_region_destroy(mine);
  hak_region_usage_t usage;
  CHECK(call("arena.%u.reset", arena) == 0 && hak_region_usage(region, &usage) && usage.live_blocks == 0);
  CHECK(call("arena.%u.destroy", arena) == 0 && !hak_region_usage(region, &usage));
  errno = 0;
  CHECK(mallocx(100, arena_flag(arena)) == NULL && errno == ENOMEM);
  CHECK(call("arena.%u.destroy", other) == 0);
}

static void all_of_them(void) {
  unsigned made = 0, arena = 0;
  size_t bytes = sizeof arena;
  while (mallctl("arenas.create", &arena, &bytes, NULL, 0) == 0) {
    made++;
  }
  CHECK(made == MOST && mallctl("arenas.create", &arena, &bytes, NULL, 0) == EAGAIN);
  CHECK(hak_region_of(mallocx(100, arena_flag(MOST))) != NULL && bind_thread(MOST) == 0 && bind_thread(0) == 0);
  for (arena = 1; arena <= MOST; arena++) {
    CHECK(call("arena.%u.destroy", arena) == 0);
  }
}

static void names_of_others(bool behind) {
  const char *text = NULL;
  size_t bytes = sizeof(void *), mib[6], depth = 6, value = 0;
  CHECK(mallctl("version", &text, &bytes, NULL, 0) == 0 && (strcmp(text, "behind") == 0) == behind);
  CHECK(mallctl("stats.allocated", &value, &bytes, NULL, 0) == (behind ? 0 : ENOENT));
  CHECK(mallctlnametomib("stats.allocated", mib, &depth) == (behind ? 0 : ENOENT));
  CHECK(behind || mallctl("version", NULL, NULL, &text, bytes) == EPERM);
  mib[0] = 5;
  CHECK(mallctlbymib(mib, 1, &value, &bytes, NULL, 0) == (behind ? 0 : ENOENT));
}

int main(int count, char **arguments) {
  uint64_t epoch = 1;
  size_t bytes = sizeof epoch;
  bool behind = count > 1 && strcmp(arguments[1], "behind") == 0;
  CHECK(behind || mallctl("epoch", &epoch, &bytes, &epoch, sizeof epoch) == 0);
  if (!behind) {
    errors();
    numbers_of_names();
    names();
    threads();
  }
  if (hak_region_of) {
    names_of_others(behind);
    regions();
    all_of_them();
  }
  return 0;
}
