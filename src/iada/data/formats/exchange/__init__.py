"""Exchange formats of translation tools: one file with both sides and much that must stay."""
