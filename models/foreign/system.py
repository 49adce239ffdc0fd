"""Operating system errors as refusals."""

import errno

from models.refusals import Refusal

SYSTEM = {
    errno.EACCES: "no_rights",
    errno.EPERM: "no_rights",
    errno.ELOOP: "link_circle",
    errno.ENOENT: "gone",
    errno.EISDIR: "is_folder",
    errno.ENOTDIR: "no_folder",
    errno.EEXIST: "exists",
    errno.EIO: "disk_error",
    errno.ENOSPC: "disk_full",
    errno.EROFS: "read_only",
    errno.EMFILE: "many_files",
    errno.ENFILE: "many_files",
    errno.ENAMETOOLONG: "long_name",
}
"""Keys of the messages for common errors, by errno."""


def of_system(error: OSError) -> Refusal | str:
    """The reason of an OSError, without the file's name; the system's message if it is rare."""
    known = SYSTEM.get(error.errno or 0)
    return Refusal(known) if known else error.strerror or str(error)
