"""Statistical inference: each procedure a short module with its source, pure, below every driver."""
