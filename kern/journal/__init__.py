"""What happened: kept, read back, folded once, put into words."""
