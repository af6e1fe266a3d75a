"""What people look at: tables, plots, pictures, the page."""
