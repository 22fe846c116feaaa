"""Another process, or a core file, read from outside: what its heap holds, and to whom every resident page belongs."""
