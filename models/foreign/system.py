"""The operating system's reasons for not letting a folder be read, as refusals."""

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
"""The keys of the operating system's usual reasons, by their numbers."""


def of_system(error: OSError) -> Refusal | str:
    """Why the operating system refused, without the file's name; rare reasons in its own words."""
    known = SYSTEM.get(error.errno or 0)
    return Refusal(known) if known else error.strerror or str(error)
