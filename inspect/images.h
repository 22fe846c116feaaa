/* Duty: the files whose code is mapped, by name and build id, for tools that read a profile on another machine. Data:
 * one table, for the profile that is being written; lock: that of profiles. Layers below: modules, file. */
#pragma once

#include "modules.h"

enum { HAK_IMAGES_MAX = 1024, HAK_BUILD_ID_MAX = 32 };

/* Find all images; the program's own comes first. */
void hak_images_look(void);
size_t hak_images_count(void);
const hak_mapping_t *hak_images_at(size_t i);
/* Number of the image that holds the address; hak_images_count() if none does. */
size_t hak_images_find(uintptr_t address);

/* Read the build id of a file. Returns its bytes; 0: it has none, or cannot be read. */
size_t hak_images_build_id(const char *name, unsigned char id[HAK_BUILD_ID_MAX]);
