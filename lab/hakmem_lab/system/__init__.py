"""What the kernel knows and does: programs started and measured, what they use, files, the machine."""
