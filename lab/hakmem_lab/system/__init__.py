"""What the kernel knows and does: programs started and measured, control groups, processes, files, the machine."""
