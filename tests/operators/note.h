/* Functions that the replaced operators and their users share. */
#ifndef HAK_TEST_OPERATORS_NOTE_H
#define HAK_TEST_OPERATORS_NOTE_H

#ifdef __cplusplus
extern "C" {
#endif
/* Note that a form was called. use_operators() prints the names. */
void note(const char *form);
/* Whether the forms take their blocks from a pool of their own: the program was started with POOL=1. */
bool note_pooled(void);
/* Calls every form, and library functions that call them. */
void use_operators(void);
#ifdef __cplusplus
}
#endif

#endif
