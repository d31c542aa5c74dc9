"""The paper in one room: importance, selection, perturbation, losses, objective (section 3)."""
