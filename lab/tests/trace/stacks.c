/* stacks [ROUNDS [WAIT]]: every function allocates a known amount. With a second argument, the program first waits for
 * a line on standard input. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))
void *volatile seen;
static void *kept[300];

SITE void temporary(void) {
  for (int i = 0; i < 1000; i++) {
    seen = malloc(100);
    free(seen);
  }
}

SITE void leaks(void) {
  for (int i = 0; i < 500; i++) {
    seen = calloc(1, 64);
  }
}

SITE void peak(void) {
  for (int i = 0; i < 300; i++) {
    kept[i] = malloc(1000);
  }
  for (int i = 0; i < 300; i++) {
    free(kept[i]);
  }
}

SITE void grows(void) {
  char *block = NULL;
  for (size_t i = 1; i <= 50; i++) {
    block = realloc(block, i * 1000);
  }
  seen = block;
}

SITE void often(int rounds) {
  for (int i = 0; i < rounds; i++) {
    seen = malloc(512);
    kept[i % 300] = seen;
    if (i >= 299) {
      free(kept[(i + 1) % 300]);
    }
  }
}

SITE void *in_a_thread(void *unused) {
  seen = malloc(777);
  free(seen);
  return unused;
}

SITE void in_a_child(void) {
  seen = malloc(555);
}

int main(int count, char **words) {
  pthread_t thread;
  if (count > 2) {
    puts("ready");
    fflush(stdout);
    getchar();
  }
  temporary();
  peak();
  leaks();
  grows();
  often(count > 1 ? atoi(words[1]) : 0);
  pthread_create(&thread, NULL, in_a_thread, NULL);
  pthread_join(thread, NULL);
  pid_t child = fork();
  if (child == 0) {
    in_a_child();
    exit(0);
  }
  waitpid(child, NULL, 0);
  return 0;
}
