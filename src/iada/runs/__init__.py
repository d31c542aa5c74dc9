"""What every command shares about a run: its folder, its corpus and its environment."""
