"""What the service promises, as data: facts, assumptions, plans and the policy that joins them."""
