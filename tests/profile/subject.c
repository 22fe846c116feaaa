/* A program whose allocations are known: subject WHAT. For each function it prints a line "function blocks bytes", with
 * the blocks and bytes in use. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"

#ifdef __clang__
#define SITE __attribute__((noinline))
#else
#define SITE __attribute__((noinline, noclone))
#endif
enum { KEPT = 200000, MIB = 1 << 20 };
void *kept[KEPT]; /* visible, so that the compiler does not leave them out */
size_t kept_count;

static void *keep(void *block) {
  kept[kept_count++] = block;
  return block;
}

SITE void *by_malloc(size_t bytes) {
  return keep(malloc(bytes));
}
SITE void *by_calloc(size_t bytes) {
  return keep(calloc(1, bytes));
}
SITE void *by_realloc(size_t bytes) {
  void *block = realloc(NULL, bytes / 2);
  return keep(realloc(block, bytes));
}
SITE void *by_aligned(size_t bytes) {
  return keep(aligned_alloc(256, bytes));
}
SITE void by_and_by(size_t bytes) {
  void *block = malloc(bytes);
  memset(block, 1, bytes);
  free(block);
}

static void tell(const char *name, void *(*site)(size_t), const size_t *sizes, size_t count, size_t rounds) {
  size_t bytes = 0;
  for (size_t i = 0; i < count * rounds; i++) {
    bytes += malloc_usable_size(site(sizes[i % count]));
  }
  printf("%s %zu %zu\n", name, count * rounds, bytes);
}

static int known(void) {
  static const size_t small[] = {1, 16, 100, 1000, 4000, 4096, 4097, 30000}, large[] = {40000, MIB, 3 * MIB};
  tell("by_malloc", by_malloc, small, 8, 50);
  tell("by_calloc", by_calloc, small, 8, 20);
  tell("by_realloc", by_realloc, large, 3, 4);
  tell("by_aligned", by_aligned, small + 3, 5, 7);
  for (int i = 0; i < 5000; i++) {
    by_and_by(3000);
  }
  for (size_t i = 0; i < 100; i++) { /* blocks of by_malloc */
    free(kept[i]);
  }
  return 0;
}

static int many(size_t mib) {
  for (size_t i = 0; i < mib * 256; i++) {
    memset(by_malloc(4000), 1, 4000);
  }
  return 0;
}

/* Sampling begins after most blocks were allocated. */
static int late(const char *file) {
  static const size_t sizes[] = {1000, 100000};
  for (size_t i = 0; i < 40000; i++) {
    memset(by_calloc(sizes[i % 200 == 0]), 1, sizes[i % 200 == 0]);
  }
  hak_profile_start(1);
  for (size_t i = 0; i < 400; i++) {
    memset(by_malloc(sizes[i % 20 == 0]), 1, sizes[i % 20 == 0]);
  }
  return hak_profile_write(file);
}

SITE void *by_region(hak_region_t *region, size_t bytes) {
  return keep(hak_region_malloc(region, bytes));
}

static int regions(void) {
  hak_region_t *cache = hak_region_new(&(hak_region_options_t){.name = "cache"});
  hak_region_t *scope = hak_region_new(&(hak_region_options_t){.name = "scope"});
  for (size_t i = 0; i < 10; i++) {
    by_region(cache, 1000 * i);
  }
  if (!hak_region_enter(scope)) {
    return 1;
  }
  for (size_t i = 0; i < 20; i++) {
    by_malloc(1000 * i + 1);
  }
  hak_region_leave(scope);
  for (int i = 0; i < 3; i++) {
    hak_region_t *request = hak_region_new(&(hak_region_options_t){.name = "request"});
    for (size_t j = 0; j < 100; j++) {
      by_region(request, 400 * j);
    }
    hak_region_destroy(request);
  }
  for (size_t i = 0; i < 5; i++) {
    by_malloc(100);
  }
  return 0;
}

_Noreturn static void wait_forever(void) {
  for (;;) {
    pause();
  }
}

/* Allocates many blocks, frees them all, and repeats. Now and then it flushes the cache, so that the thread takes the
 * slow path although the blocks would fit into the cache. */
_Noreturn static void loop(void) {
  puts("ready");
  fflush(stdout);
  for (size_t round = 0;; round++) {
    for (size_t i = 0; i < 5000; i++) {
      by_malloc(100 + i * (round % 13) % 9000);
    }
    while (kept_count > 0) {
      free(kept[--kept_count]);
    }
    if (round % 8 == 0) {
      hak_thread_flush();
    }
    usleep(1000);
  }
}

static int refused(void) {
  size_t blocks = 0;
  while (by_malloc(MIB / 2) && blocks < KEPT / 2) {
    blocks++;
  }
  return blocks > 10 && blocks < KEPT / 2 && errno == ENOMEM ? 0 : 1;
}

static int by_calls(const char *file) {
  by_malloc(5000);
  if (hak_profile_start((size_t)1 << 40) != EINVAL || hak_profile_start(1) != 0) {
    return 1;
  }
  for (int i = 0; i < 10; i++) {
    by_calloc(5000);
  }
  hak_profile_stop();
  for (int i = 0; i < 1000; i++) {
    by_aligned(5120);
  }
  errno = 77;
  bool ok = hak_profile_write("profile.of.no.kind") == 0 && remove("profile.of.no.kind") == 0 &&
            hak_profile_write("/no/such/folder/p.txt") == ENOENT && hak_profile_write(file) == 0 && errno == 77;
  return ok ? 0 : 1;
}

static _Atomic bool ended;
static void *alloc_and_free(void *argument) {
  unsigned seed = (unsigned)(size_t)argument;
  void *blocks[64] = {NULL};
  while (!atomic_load(&ended)) {
    seed = seed * 1103515245 + 12345;
    void **block = &blocks[seed >> 16 & 63];
    free(*block);
    *block = malloc(seed >> 12 & 0xffff);
  }
  for (int i = 0; i < 64; i++) {
    free(blocks[i]);
  }
  return NULL;
}

static void *brief_thread(void *argument) {
  free(malloc(100));
  return argument;
}

/* Forks, exec, threads that come and go, libraries that come and go, and a signal now and then. */
static int storm(const char *self, size_t rounds) {
  pthread_t threads[3];
  for (size_t i = 0; i < 3; i++) {
    pthread_create(&threads[i], NULL, alloc_and_free, (void *)(i + 1));
  }
  for (size_t i = 0; i < rounds; i++) {
    pthread_t brief;
    if (i % 8 == 0) {
      kill(getpid(), SIGUSR2);
    }
    pid_t child = fork();
    if (child == 0) {
      free(malloc(1000));
      if (i % 16 == 0) {
        execl(self, self, "known", NULL);
      }
      _exit(0);
    }
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library) {
      dlclose(library);
    }
    pthread_create(&brief, NULL, brief_thread, NULL);
    pthread_join(brief, NULL);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) {
      return 1;
    }
  }
  atomic_store(&ended, true);
  for (size_t i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
  }
  return 0;
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  size_t number = count > 2 ? strtoul(words[2], NULL, 10) : 0;
  return strcmp(what, "known") == 0     ? known()
         : strcmp(what, "many") == 0    ? many(number)
         : strcmp(what, "loop") == 0    ? (loop(), 0)
         : strcmp(what, "refused") == 0 ? refused()
         : strcmp(what, "calls") == 0   ? by_calls(words[2])
         : strcmp(what, "late") == 0    ? late(words[2])
         : strcmp(what, "regions") == 0 ? regions()
         : strcmp(what, "storm") == 0   ? storm(words[0], number)
         : strcmp(what, "rest") == 0    ? (puts("ready"), fflush(stdout), many(number), wait_forever(), 0)
                                        : 2;
}
