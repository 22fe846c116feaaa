"""Interfaces to the kernel: programs that are started and measured, their resources, files, and the machine."""
