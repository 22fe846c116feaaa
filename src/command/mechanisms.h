/* The mechanisms of the hardened profile that a process was started with. */
#pragma once

/* Print a line of them, if the environment of the process chooses the profile. */
void mechanisms_tell(const char *pid);
