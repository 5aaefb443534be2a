"""What surfaces of the API have in common, without sockets or threads: wires of operations, JSON, GraphQL."""
