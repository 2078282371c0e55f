"""What must hold whatever comes in: small here, long in `make fuzz` (tools/fuzz.py), from the same lists."""
