/* What the replaced operators and those who use them share. */
#ifndef HAK_TEST_OPERATORS_NOTE_H
#define HAK_TEST_OPERATORS_NOTE_H

#ifdef __cplusplus
extern "C" {
#endif
/* One form was called. Printed by use_operators(). */
void note(const char *form);
/* Whether the forms take their blocks from a pool of their own: the program was started with POOL=1. */
bool note_pooled(void);
/* Calls every form, and what calls them. */
void use_operators(void);
#ifdef __cplusplus
}
#endif

#endif
