"""What surfaces of the API have in common, without sockets: schemas of operations, JSON, GraphQL."""
