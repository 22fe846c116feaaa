/* Functions of a library or a part of the program that replaces two forms, and calls them without a look-up by name. */
#ifndef HAK_TEST_OPERATORS_POOL_H
#define HAK_TEST_OPERATORS_POOL_H

#include <string>

std::string *pool_string();
int *pool_array();

#endif
