/* What the sampler tells, where nobody profiles. */
#include "sample.h"

void hak_profile_allocated(hak_sample_t *sample) {
  (void)sample;
}

void hak_profile_freed(hak_sample_t *sample) {
  (void)sample;
}
