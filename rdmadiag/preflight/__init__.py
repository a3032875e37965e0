"""What is to be thought of a report: rules, findings, safety, expectations, the verdict. Pure."""
