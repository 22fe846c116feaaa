"""The plan of a measurement: the keys of a spec, the arms and their libraries, the metrics, the order of the runs."""
