/* Ten plugins in one process, each in a region of its own with a limit. One leaks: it alone meets its limit, and the
 * others never notice. The same code runs in all of them, and knows nothing of regions. */
#include "check.h"
#include "hakmem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PLUGINS = 10, LEAKING = 3, LIMIT = 4 << 20, REQUESTS = 2000, KEPT = 64 };

typedef struct {
  char name[16];
  hak_region_t *region;
  size_t served, refused;
} Plugin;

static Plugin plugins[PLUGINS];
static _Atomic int asked;

/* A request of a plugin: some small blocks and a large one. False: there was no memory. */
static bool serve(size_t request, bool leaks, void **kept) {
  void **slot = &kept[request % KEPT];
  char *large = hak_malloc(30000 + request % 7 * 1000);
  hak_free(*slot);
  *slot = hak_malloc(100 + request % 3000);
  bool served = large && *slot;
  if (served) {
    memset(large, 1, 30000);
    memset(*slot, 2, 100);
  }
  if (!leaks) {
    hak_free(large);
  }
  return served;
}

static void *run(void *argument) {
  Plugin *plugin = argument;
  void *kept[KEPT] = {NULL};
  for (size_t i = 0; i < REQUESTS; i++) {
    CHECK(hak_region_enter(plugin->region));
    errno = 0;
    bool served = serve(i, plugin == &plugins[LEAKING], kept);
    hak_region_leave(plugin->region);
    CHECK(served || errno == ENOMEM);
    *(served ? &plugin->served : &plugin->refused) += 1;
    void *host = hak_malloc(LIMIT / 64); /* the process itself has memory all the time */
    CHECK(host != NULL && hak_region_of(host) == NULL);
    hak_free(host);
  }
  return NULL;
}

static bool on_limit(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *user) {
  CHECK(region == plugins[LEAKING].region && bytes > 0 && limit == HAK_REGION_HARD && user == &plugins[LEAKING]);
  atomic_fetch_add(&asked, 1);
  return false;
}

static size_t metric(const char *text, const char *name, const char *heap) {
  char line[96];
  (void)snprintf(line, sizeof line, "\nhakmem_heap_%s{heap=\"%s\",parent=\"plugins\"} ", name, heap);
  const char *at = strstr(text, line);
  CHECK(at != NULL);
  return (size_t)strtoull(at + strlen(line), NULL, 10);
}

int main(void) {
  static char text[1 << 17];
  pthread_t threads[PLUGINS];
  hak_region_t *all = hak_region_new(&(hak_region_options_t){.name = "plugins"});
  for (int i = 0; i < PLUGINS; i++) {
    Plugin *plugin = &plugins[i];
    (void)snprintf(plugin->name, sizeof plugin->name, "plugin %d", i);
    plugin->region = hak_region_new(&(hak_region_options_t){
        .name = plugin->name, .parent = all, .hard_limit = LIMIT, .on_limit = on_limit, .user = plugin});
    CHECK(plugin->region && pthread_create(&threads[i], NULL, run, plugin) == 0);
  }
  for (int i = 0; i < PLUGINS; i++) {
    CHECK(hak_stats_openmetrics(text, sizeof text) < sizeof text); /* while they run */
    CHECK(metric(text, "used_bytes", plugins[i].name) <= LIMIT);
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(hak_stats_openmetrics(text, sizeof text) < sizeof text);
  for (int i = 0; i < PLUGINS; i++) {
    size_t used = metric(text, "used_bytes", plugins[i].name), peak = metric(text, "peak_bytes", plugins[i].name);
    CHECK(metric(text, "limit_bytes", plugins[i].name) == LIMIT && peak <= LIMIT);
    if (i == LEAKING) {
      CHECK(plugins[i].refused > REQUESTS / 2 && used > LIMIT * 9 / 10);
      CHECK(atomic_load(&asked) > REQUESTS / 2);
    } else {
      CHECK(plugins[i].served == REQUESTS && used < LIMIT / 4 && peak < LIMIT / 2);
    }
  }
  hak_region_destroy(plugins[LEAKING].region); /* the leak is gone */
  CHECK(hak_stats_openmetrics(text, sizeof text) < sizeof text && strstr(text, "\"plugin 3\"") == NULL);
  hak_region_destroy(all);
  hak_check();
  return 0;
}
