/* A thread with a pending cancellation commits a crime. The message is printed and the process dies, although printing
 * could be a cancellation point. */
#include <pthread.h>
#include <string.h>

#include "trap.h"

static void free_twice(void) {
  void *block = hak_malloc(100);
  hak_free(block);
  hak_free(hide_pointer(block));
}

static void free_inside(void) {
  char *block = hak_malloc(100);
  hak_free(hide_pointer(block + 16));
}

static void free_large_twice(void) {
  void *block = hak_malloc(3 << 20);
  hak_free(block);
  hak_free(hide_pointer(block));
}

static void free_stack(void) {
  _Alignas(16) char local[64] = {0};
  hak_free(hide_pointer(local));
}

static void realloc_freed(void) {
  void *block = hak_malloc(100);
  hak_free(block);
  hak_free(hak_realloc(hide_pointer(block), 2000));
}

static void *commit(void *argument) {
  void (**crime)(void) = argument;
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
  CHECK(pthread_cancel(pthread_self()) == 0);
  (*crime)();
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return NULL;
}

static void in_cancelled_thread(void *crime) {
  pthread_t thread;
  trap_watchdog(60);
  CHECK(pthread_create(&thread, NULL, commit, crime) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
  static void (*crimes[])(void) = {free_twice, free_inside, free_large_twice, free_stack, realloc_freed};
  for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
    TrapEnd end = trap_in_child(in_cancelled_thread, &crimes[i]);
    if (!trap_is_misuse(&end)) {
      fprintf(stderr, "crime %zu: status 0x%x, text '%s'\n", i, (unsigned)end.status, end.text);
    }
    CHECK(trap_is_misuse(&end));
  }
  return 0;
}
