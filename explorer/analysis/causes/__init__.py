"""Why a head looks where it looks, what it writes, and what the model would say at each depth."""
