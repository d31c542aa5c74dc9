"""A page on this machine that translates documents: what it can ask for, and how it is served."""
