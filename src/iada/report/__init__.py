"""What runs leave behind, made readable: tables, figures, heat maps and one HTML page."""
