"""What a trace holds, as judges see it: observations, packed; reading a trace; all of it in order."""
