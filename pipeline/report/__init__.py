"""Present results to people: tables, plots, pictures and the report page."""
