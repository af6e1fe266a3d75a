"""The report: one HTML file from what the stages wrote."""
