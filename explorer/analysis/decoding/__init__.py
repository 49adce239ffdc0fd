"""Decoding compared with one teacher-forced pass; KV cache, search tree and a training batch."""
