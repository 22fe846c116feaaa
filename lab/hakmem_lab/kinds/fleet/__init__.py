"""`hak fleet`: one spec on many hosts, and a verdict about all of them."""
