/* A library that has nothing to do with memory. */
int answer(void);
int answer(void) {
  return 42;
}
