/* A TCP server on 127.0.0.1: server PORT MODE. Modes: serve (until SIGTERM), stubborn (ignores SIGTERM), deaf (never
 * listens), one-connection (ends after the first), careless (goes on if the port is taken), prefork (a child answers,
 * with 48 MiB and 60 ms of processor time for each connection), client (no server: connects and reads). */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in address(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

static int client(int port) {
  struct sockaddr_in a = address(port);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  char answer[32] = "";
  if (connect(s, (struct sockaddr *)&a, sizeof a) < 0 || read(s, answer, sizeof answer - 1) <= 0) {
    return 1;
  }
  printf("answer %s\n", answer);
  return 0;
}

static volatile char *fill(size_t mib) {
  volatile char *block = malloc(mib << 20);
  for (size_t i = 0; block && i < mib << 20; i += 4096) {
    block[i] = 1;
  }
  return block;
}

static double used_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void burn(double ms) {
  for (double start = used_ms(); used_ms() - start < ms;) {
  }
}

int main(int argc, char **argv) {
  const char *mode = argc > 2 ? argv[2] : "serve";
  int port = argc > 1 ? atoi(argv[1]) : 0;
  if (!strcmp(mode, "client")) {
    return client(port);
  }
  if (!strcmp(mode, "stubborn")) {
    signal(SIGTERM, SIG_IGN);
  }
  volatile char *start = fill(getenv("FAKE_START_MIB") ? (size_t)atol(getenv("FAKE_START_MIB")) : 0);
  free((void *)start);
  struct sockaddr_in a = address(port);
  int yes = 1, s = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(s, (struct sockaddr *)&a, sizeof a) < 0 && strcmp(mode, "careless")) {
    return 1;
  }
  if (!strcmp(mode, "deaf") || listen(s, 8) < 0) {
    pause();
  }
  int prefork = !strcmp(mode, "prefork");
  if (prefork && fork() > 0) {
    pause();
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    int c = accept(s, NULL, NULL);
    if (c < 0) {
      pause();
    }
    if (prefork) {
      fill(48);
      burn(60);
    }
    if (write(c, "42", 2) < 0) {
      return 3;
    }
    close(c);
    if (!strcmp(mode, "one-connection")) {
      return 5;
    }
  }
}
