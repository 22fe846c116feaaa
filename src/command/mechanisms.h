/* The mechanisms of the hardened profile that a process was started with. */
#pragma once

/* Print one line that names them, if the environment of the process chooses the profile. */
void mechanisms_tell(const char *pid);
