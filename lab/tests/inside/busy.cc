// Threads that allocate and free all the time, or, with an argument, until so many rounds are over; then they sleep.
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<unsigned> ended;

static void work(unsigned seed, long rounds) {
  std::map<unsigned, std::string> names;
  std::vector<std::unique_ptr<std::vector<char>>> buffers(64);
  for (long i = 0; rounds == 0 || i < rounds; i++) {
    seed = seed * 1664525u + 1013904223u;
    names[seed % 5000] = std::string(seed % 300, 'x');
    buffers[seed % 64] = std::make_unique<std::vector<char>>(seed % 200000);
    if (seed % 3 == 0) {
      names.erase(seed % 4999);
    }
  }
  ended++;
  pause();
}

int main(int count, char **words) {
  long rounds = count > 1 ? std::atol(words[1]) : 0;
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 3; i++) {
    threads.emplace_back(work, i, rounds);
  }
  while (rounds > 0 && ended < threads.size()) {
    usleep(10000);
  }
  if (write(STDOUT_FILENO, "ready\n", 6) != 6) {
    return 1;
  }
  pause();
}
