"""`hak latency`: tail latency of an open loop."""
