/* A library with jemalloc's mallctl, behind hakmem's. It knows all names. */
#include <stddef.h>
#include <string.h>

extern int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);
extern int mallctlnametomib(const char *name, size_t *mib, size_t *depth);
extern int mallctlbymib(const size_t *mib, size_t depth, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);

/* NOLINTNEXTLINE(readability-non-const-parameter): jemalloc's type */
int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes) {
  static const char *const text = "behind";
  (void)fresh, (void)fresh_bytes;
  if (strcmp(name, "version") == 0) {
    memcpy(old, &text, *old_bytes);
  }
  return 0;
}

int mallctlnametomib(const char *name, size_t *mib, size_t *depth) {
  (void)name;
  mib[0] = *depth = 1;
  return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): jemalloc's type */
int mallctlbymib(const size_t *mib, size_t depth, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes) {
  (void)mib, (void)depth, (void)old, (void)old_bytes, (void)fresh, (void)fresh_bytes;
  return 0;
}
