"""Terminal output, made with rich: tables and progress."""
