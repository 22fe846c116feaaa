/* Scopes: a thread's ordinary requests go to a region. The thread's heap is set aside, so that each call takes the slow
 * path, which looks for the scope. */
#include "region.h"

struct hak_scope {
  hak_region_t *region;
  struct hak_scope *before; /* the scope around it */
};

_Thread_local struct hak_scope *hak_scope __attribute__((tls_model("initial-exec")));
static _Thread_local struct hak_scope *innermost __attribute__((tls_model("initial-exec")));
static _Thread_local hak_aside_t aside __attribute__((tls_model("initial-exec"))); /* the thread's heap */
static void *dropped;                                                              /* scopes that were left */

hak_region_t *hak_scope_region(void) {
  return hak_scope->region;
}

void hak_scope_suspend(void) {
  hak_heap_step_back(&aside);
}

void hak_scope_resume(void) {
  hak_heap_step_aside(&aside);
}

/* In a scope of the process, requests go to the ordinary heap. */
static bool is_apart(const struct hak_scope *scope) {
  return scope && scope->region != &hak_region_root;
}

/* The scope becomes the innermost one. A signal handler that allocates meanwhile gets a block without a cache. */
static void turn_to(struct hak_scope *scope) {
  bool was = is_apart(innermost), is = is_apart(scope);
  if (is && !was) {
    hak_heap_step_aside(&aside);
  }
  innermost = scope;
  hak_scope = is ? scope : NULL;
  if (was && !is) {
    hak_heap_step_back(&aside);
  }
}

static void count(hak_region_t *region, bool begins, const char *function) {
  if (region != &hak_region_root) {
    hak_region_count_scope(region, begins, function);
  }
}

void hak_scope_step_aside(hak_aside_t *state) {
  hak_heap_step_aside(state);
  state->scope = hak_scope != NULL;
  hak_scope = NULL;
}

void hak_scope_step_back(const hak_aside_t *state) {
  hak_heap_step_back(state);
  hak_scope = state->scope ? innermost : NULL;
}

bool hak_scope_begin(hak_region_t *region) {
  if (!innermost) {
    hak_heap_expect_end();
  }
  struct hak_scope *scope = hak_meta_take(&dropped, sizeof *scope);
  if (!scope) {
    return false;
  }
  count(region, true, "hak_region_enter");
  *scope = (struct hak_scope){region, innermost};
  turn_to(scope);
  return true;
}

static void end(const char *function) {
  struct hak_scope *scope = innermost;
  hak_region_t *region = scope->region;
  turn_to(scope->before);
  hak_meta_drop(&dropped, scope);
  count(region, false, function);
}

void hak_scope_end(hak_region_t *region) {
  if (!innermost || innermost->region != region) {
    hak_misuse("hak_region_leave", HAK_MISUSE_SCOPE, region);
  }
  end("hak_region_leave");
}

void hak_scope_thread_ends(void) {
  while (innermost) {
    end("hak_region_leave");
  }
}

void hak_scope_each(void (*visit)(hak_region_t *region)) {
  for (const struct hak_scope *scope = innermost; scope; scope = scope->before) {
    visit(scope->region);
  }
}
