"""The HTTP facade: a fake deployment of the API, its clock in the user's hands."""
