"""SQLite on a network file system is warned of."""

from pathlib import Path

import pytest

from archopt.campaign import file_systems
from archopt.campaign.file_systems import locks_warning, network_file_system

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/local ext4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
overlay /scratch lustre rw 0 0
tmpfs /scratch tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/study.db", None),
        ("/home/me/study.db", "nfs4"),
        ("/homes/study.db", None),
        ("/home/local/study.db", None),
        ("/mnt/my share/a/study.db", "cifs"),
        ("/scratch/study.db", None),  # mounted over
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


def test_the_warning_says_what_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    assert locks_warning("postgresql+psycopg://me@host/db") is None
    assert locks_warning("sqlite://") is None
    (tmp_path / "mounts").write_text(f"server:/x {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "mounts")
    warning = locks_warning(url)
    assert warning is not None
    assert "(nfs), whose locks may fail" in warning
    assert "use PostgreSQL" in warning
    (tmp_path / "mounts").unlink()
    assert locks_warning(url) is None
