"""`hak matrix`: a 2^k design."""
