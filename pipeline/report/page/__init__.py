"""The report: one HTML file from the results that the stages wrote."""
