/* Blocks of libc's own malloc, which a handle or RTLD_NEXT leads to, may come to the standard functions. Blocks of
 * these may come to the functions that dlsym finds in libc. argument: "asked" if dlsym is intercepted */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trap.h"

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#else
#define FIRST_VERSION "GLIBC_2.27"
#endif

static const size_t sizes[] = {24, 1000, 40000, 131072, 140000, 1048576, 40 << 20};

static void *(*libc_malloc)(size_t bytes);
static void *(*libc_memalign)(size_t alignment, size_t bytes);

static void *of_libc(size_t bytes, size_t alignment) {
  char *block = alignment > 0 ? libc_memalign(alignment, bytes) : libc_malloc(bytes);
  CHECK(block != NULL);
  block[0] = block[bytes - 1] = 7;
  return block;
}

static void pass(size_t bytes, size_t alignment) {
  free(of_libc(bytes, alignment));
  CHECK(malloc_usable_size(of_libc(bytes, alignment)) >= bytes);
  char *block = realloc(of_libc(bytes, alignment), 3 * bytes);
  CHECK(block != NULL && block[0] == 7 && block[bytes - 1] == 7);
  block = realloc(block, bytes / 2);
  CHECK(block != NULL && block[0] == 7);
  free(block);
}

static void *pass_all(void *none) {
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    pass(sizes[i], 0);
    pass(sizes[i], 64);
    pass(sizes[i], 65536);
  }
  return none;
}

/* What a call by an interface to foreign functions does. */
static void use_handle(const char *library) {
  void *handle = dlopen(library, RTLD_LAZY);
  CHECK(handle != NULL);
  void (*free_there)(void *block) = NULL;
  void *(*realloc_there)(void *block, size_t bytes) = NULL, *(*malloc_there)(size_t bytes) = NULL;
  size_t (*usable_there)(void *block) = NULL;
  *(void **)&free_there = dlsym(handle, "free");
  *(void **)&realloc_there = dlsym(handle, "realloc");
  *(void **)&malloc_there = dlsym(handle, "malloc");
  *(void **)&usable_there = dlsym(handle, "malloc_usable_size");
  CHECK(free_there == free && realloc_there && malloc_there && usable_there);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *block = malloc(sizes[i]);
    CHECK(usable_there(block) >= sizes[i]);
    free_there(realloc_there(block, sizes[i] + 1));
    free(malloc_there(sizes[i]));
  }
  free_there(strdup("a string"));
  int (*trim_there)(size_t keep_bytes) = NULL;
  void (*free_by_own_name)(void *block) = NULL;
  *(void **)&trim_there = dlsym(handle, "malloc_trim");
  *(void **)&free_by_own_name = dlsym(handle, "__libc_free");
  CHECK(trim_there == malloc_trim && free_by_own_name);
  free_by_own_name(strdup("a string"));
  CHECK(dlsym(handle, "no_such_function") == NULL && dlerror() != NULL);
  CHECK(dlsym(handle, "calloc") != NULL && dlerror() == NULL);
  CHECK(dlsym(RTLD_DEFAULT, "free") == (void *)free && dlsym(RTLD_DEFAULT, "strlen") != NULL);
}

/* A mapping whose words pass for those of a block, though libc has no such block. */
static void free_lookalike(void *unused) {
  size_t *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  (void)unused;
  CHECK(mapping != MAP_FAILED);
  mapping[1] = (1 << 20) + 2;
  free(hide_pointer(mapping + 2));
}

static void free_no_access(void *unused) {
  char *mapping = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  (void)unused;
  CHECK(mapping != MAP_FAILED);
  free(hide_pointer(mapping + 16));
}

static void free_of_libc_twice(void *unused) {
  (void)unused;
  void *block = of_libc(1 << 20, 0);
  free(block);
  free(hide_pointer(block));
}

int main(int count, char **arguments) {
  static void (*const crimes[])(void *) = {free_lookalike, free_no_access, free_of_libc_twice};
  pthread_t thread;
  trap_watchdog(60);
  for (size_t i = 0; i < 2; i++) {
    TrapEnd end = trap_in_child(crimes[i], NULL);
    CHECK(trap_is_misuse(&end));
  }
  void *libc = dlopen("libc.so.6", RTLD_LAZY);
  CHECK(libc != NULL);
  *(void **)&libc_malloc = dlvsym(libc, "malloc", FIRST_VERSION);
  *(void **)&libc_memalign = dlvsym(libc, "memalign", FIRST_VERSION);
  CHECK(libc_malloc && libc_memalign && libc_malloc != malloc);
  for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
    TrapEnd end = trap_in_child(crimes[i], NULL);
    CHECK(trap_is_misuse(&end));
  }
  pass_all(NULL);
  CHECK(pthread_create(&thread, NULL, pass_all, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  if (count > 1 && strcmp(arguments[1], "asked") == 0) {
    use_handle("libc.so.6");
    use_handle("libm.so.6");
  }
  return 0;
}
