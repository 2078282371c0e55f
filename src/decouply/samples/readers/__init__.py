"""Samples from what people have: functions of other libraries, and files. Called by the class methods of `Samples`."""
