"""hakmem-lab: which allocator, and which of its settings, make a program faster or leaner."""

__version__ = "1.0.0"
