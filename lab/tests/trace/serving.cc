// A server under load, with its clients, until SIGTERM: "N requests, E errors" then, status 0 if there were none.
// Requests go over sockets to threads that wait in epoll; every thread allocates in several ways, checks what it gets
// back, and passes blocks on for others to free. From time to time a thread ends and another one begins, a library is
// loaded and unloaded, and a child is forked.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <pthread.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

enum { SERVERS = 3, LIVES = 20000, PASSED_ON = 512 };

static std::atomic<bool> over;
static std::atomic<long> requests, errors;
static std::mutex lock;
static std::vector<char *> passed_on;

static void check(bool right, const char *what) {
  if (!right && errors++ < 10)
    fprintf(stderr, "%s\n", what);
}

static void pass_on(char *block) {
  char *other = nullptr;
  {
    std::lock_guard<std::mutex> held(lock);
    passed_on.push_back(block);
    if (passed_on.size() > PASSED_ON) {
      other = passed_on[(size_t)(uintptr_t)block / 64 % PASSED_ON];
      passed_on[(size_t)(uintptr_t)block / 64 % PASSED_ON] = passed_on.back();
      passed_on.pop_back();
    }
  }
  if (other != nullptr) {
    check(other[0] == other[1], "a block that was passed on has changed");
    free(other);
  }
}

static void work(unsigned number) {
  std::map<unsigned, std::string> table;
  for (unsigned i = 0; i < 8; i++)
    table[i] = std::string(number % 97 + i * 40, (char)('a' + i));
  for (auto &entry : table)
    check(entry.second.size() == number % 97 + entry.first * 40 &&
              (entry.second.empty() || entry.second.back() == (char)('a' + entry.first)),
          "a string has changed");
  auto *block = static_cast<char *>(malloc(16 + number % 3000));
  memset(block, (int)(number & 127), 16);
  block = static_cast<char *>(realloc(block, 5000 + number % 200000));
  check(block[0] == (char)(number & 127) && block[15] == block[0], "realloc has lost something");
  pass_on(block);
  void *aligned = nullptr;
  check(posix_memalign(&aligned, 256, 100 + number % 1000) == 0 && (uintptr_t)aligned % 256 == 0, "not aligned");
  free(aligned);
  auto *zeros = static_cast<char *>(calloc(number % 500 + 1, 3));
  check(zeros[0] == 0 && zeros[number % 500] == 0, "calloc's are not zero");
  free(zeros);
  char *copy = strdup("a string of the C library's");
  check(strlen(copy) == 27, "strdup");
  free(copy);
  auto *many = new int[number % 700 + 1];
  many[number % 700] = 7;
  delete[] many;
  struct alignas(64) wide {
    char bytes[128];
  };
  delete new wide;
}

static void *serve(void *place) {
  int fd = (int)(intptr_t)place, wait = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(wait, EPOLL_CTL_ADD, fd, &event);
  for (int life = 0; life < LIVES;) {
    int got = epoll_wait(wait, &event, 1, -1);
    if (got < 0) {
      check(errno == EINTR, "epoll_wait");
      continue;
    }
    unsigned number;
    ssize_t bytes = read(fd, &number, sizeof number);
    if (bytes <= 0)
      break;
    work(number);
    number = ~number;
    check(write(fd, &number, sizeof number) == sizeof number, "write");
    life++;
  }
  close(wait);
  pthread_t next;
  if (!over && pthread_create(&next, nullptr, serve, place) == 0)
    pthread_detach(next);
  return nullptr;
}

static void *ask(void *place) {
  int fd = (int)(intptr_t)place;
  for (unsigned number = (unsigned)fd * 7919; !over; number += 13) {
    unsigned answer = 0;
    check(write(fd, &number, sizeof number) == sizeof number, "request");
    check(read(fd, &answer, sizeof answer) == sizeof answer && answer == ~number, "answer");
    requests++;
  }
  return nullptr;
}

static void now_and_then() {
  void *library = dlopen("libm.so.6", RTLD_LAZY);
  if (library != nullptr)
    dlclose(library);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; i++)
      free(malloc(1000));
    _exit(9);
  }
  int status = 0;
  check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9, "a child");
}

int main() {
  signal(SIGTERM, [](int) { over = true; });
  pthread_t clients[SERVERS];
  for (auto &client : clients) {
    int pair[2];
    pthread_t server;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
        pthread_create(&server, nullptr, serve, (void *)(intptr_t)pair[0]) != 0 ||
        pthread_create(&client, nullptr, ask, (void *)(intptr_t)pair[1]) != 0)
      return 2;
    pthread_detach(server);
  }
  puts("going");
  fflush(stdout);
  while (!over) {
    now_and_then();
    usleep(50000);
  }
  for (auto client : clients)
    pthread_join(client, nullptr);
  printf("%s %ld errors\n", requests > 0 ? "answered," : "nothing,", errors.load());
  fflush(stdout);
  _exit(errors != 0);
}
