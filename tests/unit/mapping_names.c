/* Names of mappings: each mapping gets one if the kernel supports names. Other kernels are asked only once. */
#include "system/os.h"

#include <string.h>

#include "check.h"
#include "child.h"
#include "system.h"

static size_t page;

static void mappings_have_names(void) {
  CHECK(hak_os_map(NULL, page) && system_named().times == 0);
  hak_os_name_mappings(true);
  void *at = hak_os_map(NULL, 4 * page);
  CHECK(at && system_named().at == at && system_named().bytes == 4 * page);
  CHECK(strcmp(system_named().name, "hakmem") == 0);
  const size_t times = system_named().times;
  CHECK(hak_os_map_readonly(page) && system_named().times == times + 1);
  hak_os_name_mappings(false);
  CHECK(hak_os_map(NULL, page) && system_named().times == times + 1);
  hak_os_name_mappings(true);
  CHECK(hak_os_map(NULL, page) && system_named().times == times + 2);
}

static void a_kernel_without_names_is_asked_once(void) {
  system_refuse(SYSTEM_NAME, 0, SYSTEM_ALL);
  hak_os_name_mappings(true);
  for (int i = 0; i < 3; i++) {
    unsigned char *at = hak_os_map(NULL, page);
    CHECK(at);
    *at = 1;
  }
  CHECK(system_named().times == 1);
}

int main(void) {
  page = hak_os_page_bytes();
  child_succeeds(mappings_have_names);
  child_succeeds(a_kernel_without_names_is_asked_once);
  return 0;
}
