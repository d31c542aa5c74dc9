"""What training minimises (section 3.4 of the paper): sums over tokens, never means."""
