"""Whether a SQLite file lies where its locks cannot be trusted."""

from pathlib import Path

MOUNTS = Path("/proc/mounts")  # Linux; elsewhere nothing is known
_NETWORK = ("nfs", "cifs", "smb", "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "afs", "9p", "fuse.sshfs")


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """The type of the network file system that a path lies on; None where it is local, or where nothing is known.

    Args:
        path: absolute; it need not exist.
        mounts: lines as in /proc/mounts; read from there by default.
    """
    if mounts is None:
        if not MOUNTS.exists():
            return None
        mounts = MOUNTS.read_text(errors="replace")
    longest, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))  # how the kernel writes a blank
        if path.is_relative_to(point) and len(point.parts) >= longest:  # the later hides the earlier
            longest, kind = len(point.parts), fields[2]
    return kind if kind.startswith(_NETWORK) else None


def locks_warning(url: str) -> str | None:
    """A line where a storage is a SQLite file on a network file system."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    kind = network_file_system(Path(parsed.database).resolve())
    if kind is None:
        return None
    return (
        f"warning: the storage is a SQLite file on a network file system ({kind}), whose locks may fail: with more "
        "than one machine use PostgreSQL, --storage postgresql+psycopg://user@host/database"
    )
