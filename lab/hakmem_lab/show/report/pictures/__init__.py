"""The pictures of the report, one module per family; each takes a run and gives a picture, or None for no data."""
