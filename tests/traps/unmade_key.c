/* The program uses a key that it never made, which the C library tolerates. This mistake must not harm the heap of any
 * thread. */
#include <errno.h>
#include <pthread.h>

#include "trap.h"

static pthread_key_t never_made;
static int value;

static void *use(void *unused) {
  for (size_t bytes = 1; bytes < 100000; bytes *= 3) {
    hak_free(hak_malloc(bytes));
  }
  CHECK(pthread_getspecific(never_made) == NULL);
  (void)pthread_setspecific(never_made, &value);
#ifdef __GLIBC__
  CHECK(pthread_key_delete(never_made) == EINVAL);
#else
  CHECK(pthread_key_delete(never_made) == 0); /* musl treats every key as made */
#endif
  return unused;
}

int main(void) {
  trap_watchdog(60);
  hak_free(hak_malloc(1));
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  pthread_key_t made;
  CHECK(pthread_key_create(&made, NULL) == 0 && pthread_getspecific(made) == NULL);
  return 0;
}
