"""Exhibits of the Decoding page: token by token, compared with other strategies and one pass."""
