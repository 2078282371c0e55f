"""Training of replaced parts: distillation, fine-tuning, several parts at once."""
