#include "races.h"

#include <stdint.h>
#include <string.h>

#include "explore.h"

enum { PLACES = 1 << 14 };

typedef struct Times {
  uint32_t of[EXPLORE_THREADS];
} Times;

/* The data on one address. It belongs to another run unless `run` is the present one. */
typedef struct Place {
  const void *address;
  uint64_t run;
  Times released, read, written, stored;
} Place;

typedef struct Races {
  bool watching;
  uint64_t run;
  Times now[EXPLORE_THREADS]; /* for each thread: its knowledge of all threads' times */
  Place places[PLACES];
} Races;

static Races *races;

void races_start(void) {
  races = explore_memory(sizeof *races);
}

void races_watch(bool watch) {
  races->run++;
  races->watching = watch;
  memset(races->now, 0, sizeof races->now);
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    races->now[t].of[t] = 1;
  }
}

static bool is_watching(void) {
  return races && races->watching && explore_thread() != EXPLORE_NOBODY && !explore_is_child();
}

static Place *place_of(const void *address) {
  size_t i = ((uintptr_t)address * 0x9e3779b97f4a7c15U) >> 50;
  for (size_t tried = 0; tried < PLACES; tried++, i = (i + 1) % PLACES) {
    Place *place = &races->places[i];
    if (place->run != races->run) {
      *place = (Place){.address = address, .run = races->run};
    }
    if (place->address == address) {
      return place;
    }
  }
  explore_fail("more than %d addresses in one run", PLACES);
}

static void join(Times *times, const Times *other) {
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    times->of[t] = times->of[t] > other->of[t] ? times->of[t] : other->of[t];
  }
}

static bool knows(const Times *now, const Times *past) {
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    if (past->of[t] > now->of[t]) {
      return false;
    }
  }
  return true;
}

void races_plain(const void *address, bool write) {
  if (!is_watching()) {
    return;
  }
  int me = explore_thread();
  Place *place = place_of(address);
  Times *now = &races->now[me];
  if (!knows(now, &place->written) || (write && !knows(now, &place->read))) {
    char text[80];
    explore_describe(address, text, sizeof text);
    explore_fail("a data race: an unordered %s of %s", write ? "write" : "read", text);
  }
  (write ? &place->written : &place->read)->of[me] = now->of[me];
}

void races_acquire(const void *address) {
  if (is_watching()) {
    join(&races->now[explore_thread()], &place_of(address)->released);
  }
}

void races_release(const void *address, bool keep) {
  if (is_watching()) {
    Times *now = &races->now[explore_thread()], *released = &place_of(address)->released;
    if (!keep) {
      *released = *now;
    }
    join(released, now);
    now->of[explore_thread()]++;
  }
}

void races_overwrite(const void *address) {
  if (is_watching()) {
    place_of(address)->released = (Times){{0}};
  }
}

void races_stored(const void *address) {
  if (is_watching()) {
    Times *stored = &place_of(address)->stored;
    *stored = (Times){{0}};
    stored->of[explore_thread()] = races->now[explore_thread()].of[explore_thread()];
  }
}

bool races_may_be_stale(const void *address) {
  return is_watching() && !knows(&races->now[explore_thread()], &place_of(address)->stored);
}
