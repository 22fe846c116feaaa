"""What is to be measured: the keys of a spec, arms and where their libraries are, metrics, who runs when."""
