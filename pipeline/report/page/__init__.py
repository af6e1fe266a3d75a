"""Render the report page: one HTML file made from the results of the stages."""
