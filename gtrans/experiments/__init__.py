"""The experiments of the five papers: what each table and figure shows, and how it is had here."""
