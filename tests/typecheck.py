"""The type checker of `make test`: beartype, with an int for a float as in mypy (PEP 484)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
