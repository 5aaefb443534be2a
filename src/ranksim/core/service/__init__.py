"""The service layer: every rule of the API over one state, with no clock and no I/O of its own."""
