"""Reports: plain results in; tables, plots and pages out."""
