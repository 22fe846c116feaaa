// kvserver REQUESTS: a small server of keys and values with a thread for each connection, and its client in a process
// of its own. Values are made by one thread and often freed by another: overwritten, or expired by the janitor.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr int kShards = 16, kAtOnce = 6, kConnections = 48, kBatch = 64, kKeys = 40000, kJanitorEvery = 2000;

using Value = std::shared_ptr<const std::string>;

struct Shard {
  std::mutex lock;
  std::unordered_map<std::string, Value> values;
};

std::array<Shard, kShards> shards;
std::atomic<bool> closing{false};
std::atomic<unsigned long> answered{0};

Shard &shard_of(const std::string &key) {
  return shards[std::hash<std::string>{}(key) % kShards];
}

std::vector<std::string> words_of(const std::string &line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(std::move(word));
  return words;
}

std::string answer(const std::vector<std::string> &words) {
  if (words.size() == 3 && words[0] == "SET") {
    Value value = std::make_shared<const std::string>(words[2]);
    Shard &shard = shard_of(words[1]);
    std::lock_guard<std::mutex> held(shard.lock);
    shard.values[words[1]].swap(value);
    return "stored\n";
  }
  if (words.size() == 2 && words[0] == "GET") {
    Value value;
    Shard &shard = shard_of(words[1]);
    {
      std::lock_guard<std::mutex> held(shard.lock);
      auto found = shard.values.find(words[1]);
      if (found != shard.values.end())
        value = found->second;
    }
    return value ? "value " + *value + "\n" : "nothing\n";
  }
  return "what?\n";
}

void serve(int connection) {
  std::string waiting;
  std::vector<char> buffer(16384);
  for (ssize_t got; (got = read(connection, buffer.data(), buffer.size())) > 0;) {
    waiting.append(buffer.data(), static_cast<size_t>(got));
    std::string replies;
    size_t begin = 0;
    for (size_t end; (end = waiting.find('\n', begin)) != std::string::npos; begin = end + 1)
      replies += answer(words_of(waiting.substr(begin, end - begin)));
    waiting.erase(0, begin);
    answered += static_cast<unsigned long>(std::count(replies.begin(), replies.end(), '\n'));
    for (size_t at = 0; at < replies.size();) {
      ssize_t sent = write(connection, replies.data() + at, replies.size() - at);
      if (sent <= 0)
        break;
      at += static_cast<size_t>(sent);
    }
  }
  close(connection);
}

// By the requests and not by the clock, so that a faster server keeps no more.
void keep_clean() {
  for (unsigned round = 0; !closing;) {
    if (answered < (round + 1ul) * kJanitorEvery) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::vector<Value> expired;
    Shard &shard = shards[round % kShards];
    std::lock_guard<std::mutex> held(shard.lock);
    unsigned number = 0;
    for (auto it = shard.values.begin(); it != shard.values.end();) {
      bool old = number++ % 4 == round / kShards % 4;
      if (old)
        expired.push_back(it->second);
      it = old ? shard.values.erase(it) : std::next(it);
    }
    round++;
  }
}

// The client allocates nothing.
int open_connection(const sockaddr_in &address) {
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(connection, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
    exit(1);
  return connection;
}

unsigned next_random() {
  static unsigned long state = 42;
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return static_cast<unsigned>(state >> 33);
}

void send_requests(int connection) {
  static char requests[kBatch * 1200];
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
  size_t length = 0;
  for (int i = 0; i < kBatch; i++) {
    bool set = next_random() % 10 < 4;
    length += static_cast<size_t>(sprintf(requests + length, "%s key:%u", set ? "SET" : "GET", next_random() % kKeys));
    if (set) {
      unsigned size = 16 + next_random() % (next_random() % 8 == 0 ? 1000 : 120);
      requests[length++] = ' ';
      for (unsigned at = 0; at < size; at++)
        requests[length++] = letters[(at + size) % 26];
    }
    requests[length++] = '\n';
  }
  if (write(connection, requests, length) != static_cast<ssize_t>(length))
    exit(1);
}

void await_replies(int connection) {
  static char replies[1 << 16];
  for (int lines = 0; lines < kBatch;) {
    ssize_t got = read(connection, replies, sizeof replies);
    if (got <= 0)
      exit(1);
    for (ssize_t at = 0; at < got; at++)
      lines += replies[at] == '\n';
  }
}

void be_client(const sockaddr_in &address, long requests) {
  int open[kAtOnce];
  for (int &connection : open)
    connection = open_connection(address);
  long rounds = requests / kBatch / kAtOnce, each = rounds / (kConnections - kAtOnce) + 1;
  for (long round = 0; round < rounds; round++) {
    for (int connection : open)
      send_requests(connection);
    for (int connection : open)
      await_replies(connection);
    if (round % each == each - 1) {
      int &connection = open[round / each % kAtOnce];
      close(connection);
      connection = open_connection(address);
    }
  }
  _exit(0);
}

} // namespace

int main(int argc, char **argv) {
  long requests = argc > 1 ? atol(argv[1]) : 400000;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<sockaddr *>(&address), length) != 0 || listen(listener, 64) != 0)
    return 1;
  getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length);
  pid_t client = fork();
  if (client == 0)
    be_client(address, requests);
  std::thread janitor(keep_clean);
  std::vector<std::thread> threads;
  std::thread closer([&] {
    int status = 0;
    waitpid(client, &status, 0);
    closing = true;
    shutdown(listener, SHUT_RDWR);
  });
  for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;)
    threads.emplace_back(serve, connection);
  for (std::thread *thread : {&janitor, &closer})
    thread->join();
  for (std::thread &thread : threads)
    thread.join();
  size_t kept = 0;
  for (Shard &shard : shards)
    kept += shard.values.size();
  printf("kept = %zu\n", kept);
  return 0;
}
