"""Generation events → output items and stream events, without I/O, time or globals."""
