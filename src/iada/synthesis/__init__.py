"""New training text: perturbed copies, back-translation and forward translation."""
