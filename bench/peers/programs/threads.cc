// Blocks handed from thread to thread, containers, aligned new, and a child of fork().
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 20000;
constexpr std::size_t kHeld = 512;

struct alignas(128) Aligned {
  char bytes[128];
};

std::mutex mutex;
std::vector<std::string *> shared;

void Work(unsigned seed) {
  std::unordered_map<int, std::vector<int>> own;
  for (int round = 0; round < kRounds; round++) {
    seed = seed * 1664525u + 1013904223u;
    own[static_cast<int>(seed % 500)].assign(seed >> 25, round);
    auto *text = new std::string(seed >> 23, 'x');
    std::string *other = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex);
      shared.push_back(text);
      if (shared.size() > kHeld) {
        other = shared[seed % kHeld];
        shared[seed % kHeld] = shared.back();
        shared.pop_back();
      }
    }
    delete other;
  }
}

bool AlignedNewWorks() {
  auto *one = new Aligned;
  auto *many = new Aligned[7];
  auto *quiet = new (std::nothrow) Aligned;
  bool good = quiet != nullptr;
  for (auto *block : {one, many, quiet})
    good = good && reinterpret_cast<std::uintptr_t>(block) % alignof(Aligned) == 0;
  delete one;
  delete[] many;
  delete quiet;
  return good;
}

bool ChildWorks() {
  const pid_t child = fork();
  if (child == 0) {
    Work(99);
    _exit(0);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

int main() {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; i++)
    threads.emplace_back(Work, i);
  for (auto &thread : threads)
    thread.join();
  for (auto *text : shared)
    delete text;
  shared.clear();
  if (!AlignedNewWorks() || !ChildWorks()) {
    std::fputs("aligned new, or the child, failed\n", stderr);
    return 1;
  }
  return 0;
}
