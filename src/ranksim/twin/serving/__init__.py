"""What programs that listen are made of: ASGI, a socket, a loop in a thread, who may control them."""
