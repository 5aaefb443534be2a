"""Many runs compared: designs, replications, stores, and the ready questions of planners and of pricing."""
