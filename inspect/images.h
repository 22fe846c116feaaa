/* Duty: the files whose code is mapped, by name and build id, for who reads a profile elsewhere. Data: one table, of
 * the profile that is being written; lock: that of profiles. Layers below: modules, file. */
#pragma once

#include "modules.h"

enum { HAK_IMAGES_MAX = 1024, HAK_BUILD_ID_MAX = 32 };

/* Learn all of them; the program's own is the first. */
void hak_images_look(void);
size_t hak_images_count(void);
const hak_mapping_t *hak_images_at(size_t i);
/* Number of the image of an address; hak_images_count(): of none. */
size_t hak_images_find(uintptr_t address);

/* Bytes of the build id that the file of that name has; 0: none, or it cannot be read. */
size_t hak_images_build_id(const char *name, unsigned char id[HAK_BUILD_ID_MAX]);
