/* Duty: the files whose code is or was mapped, by name and build id, for tools that read a profile on another machine.
 * An unloaded library stays known until other code takes its place. Data: one table; lock: hak_profile_lock, which the
 * writer of a profile holds. Layers below: modules, file. */
#pragma once

#include "modules.h"

enum { HAK_IMAGES_MAX = 1024, HAK_IMAGE_NAMES_BYTES = 64 << 10, HAK_BUILD_ID_MAX = 32 };

typedef struct hak_images {
  size_t count, names_used;
  hak_mapping_t image[HAK_IMAGES_MAX];
  char names[HAK_IMAGE_NAMES_BYTES], rows[HAK_MAPS_BUFFER_BYTES];
} hak_images_t;
/* For an external reader. NULL until the first images are added: static data would count against limits of memory. */
extern hak_images_t *hak_images;
extern hak_lock_t hak_profile_lock;

/* Add all images; the program's own comes first. Call it under the lock. */
void hak_images_look(void);
/* Add all images if modules.c has read new ranges since the last call and the lock is free. */
void hak_images_learn(void);
size_t hak_images_count(void);
/* Number of the image that holds the address; hak_images_count() if none does. */
size_t hak_images_find(uintptr_t address);

/* Read the build id of a file. Returns its bytes; 0: it has none, or cannot be read. */
size_t hak_images_build_id(const char *name, unsigned char id[HAK_BUILD_ID_MAX]);
