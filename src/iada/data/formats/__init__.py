"""One module per file format; each reads documents and reports what it could not use."""
