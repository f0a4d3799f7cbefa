"""Files that a command writes where the user says, over everything that may be there."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orun.fs.output_file import OutputFile
from orun.fs.signatures import to_signature

NEW = b"new\n"


def write(path: Path | str, data: bytes = NEW, *, append: bool = False) -> None:
    with OutputFile(Path(path), append=append) as file:
        file.write(data)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def refused(path: Path | str, data: bytes = NEW) -> tuple[int | None, str | None]:
    """What a path is refused with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number and text are what is returned
        write(path, data)
    return caught.value.errno, caught.value.strerror


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with content."""
    file = tmp_path / "report.html"
    file.write_text("old\n")
    return file


def test_a_new_file_in_a_new_folder_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        write(tmp_path / "a" / "b" / "report.html")
    finally:
        os.umask(umask)
    assert (tmp_path / "a" / "b" / "report.html").read_bytes() == NEW
    assert stat.S_IMODE((tmp_path / "a" / "b" / "report.html").stat().st_mode) == 0o640
    assert names(tmp_path / "a" / "b") == ["report.html"]


def test_nothing_is_touched_before_the_end(tmp_path: Path, file: Path) -> None:
    before = to_signature(file.stat())
    OutputFile(file)
    OutputFile(tmp_path / "folder" / "new.html")
    assert names(tmp_path) == ["report.html"]
    assert to_signature(file.stat()) == before


def test_a_file_keeps_its_mode(file: Path) -> None:
    file.chmod(0o600)
    write(file)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o600)


def test_a_file_may_have_a_name_as_long_as_may_be(tmp_path: Path) -> None:
    write(tmp_path / ("x" * 255))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [NEW]


def test_who_reads_the_old_file_keeps_it(file: Path) -> None:
    with file.open() as reader:
        write(file)
        assert reader.read() == "old\n"


@pytest.mark.parametrize("target", ["report.html", "../there/report.html"])
def test_a_link_goes_on_pointing_where_it_points(tmp_path: Path, file: Path, target: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    link = tmp_path / "here" / "link.html"
    (link.parent / target).parent.mkdir(exist_ok=True)
    (link.parent / target).write_text("old\n")
    link.symlink_to(target)
    second = tmp_path / "second.html"
    second.symlink_to(link)
    write(second)
    assert (second.readlink(), link.readlink()) == (link, Path(target))
    assert (link.parent / target).read_bytes() == NEW
    assert file.read_text() == "old\n"


def test_what_a_link_points_at_is_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("folder/report.html")
    write(tmp_path / "link")
    assert (tmp_path / "folder" / "report.html").read_bytes() == NEW
    assert (tmp_path / "link").readlink() == Path("folder/report.html")


def test_a_link_that_leads_back_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert refused(tmp_path / "a") == (errno.ELOOP, "Too many levels of symbolic links")


def test_other_names_of_a_file_keep_the_old_content(tmp_path: Path, file: Path) -> None:
    twin = tmp_path / "twin.html"
    twin.hardlink_to(file)
    write(file)
    assert (file.read_bytes(), twin.read_text()) == (NEW, "old\n")


def test_what_is_added_to_a_file_is_added_to_all_its_names(tmp_path: Path, file: Path) -> None:
    twin = tmp_path / "twin.html"
    twin.hardlink_to(file)
    write(file, append=True)
    assert twin.read_text() == "old\nnew\n"
    write(tmp_path / "summary.md", append=True)
    assert (tmp_path / "summary.md").read_bytes() == NEW


def test_a_pipe_with_a_reader_gets_all(tmp_path: Path) -> None:
    """More than a pipe holds, and the reader is slow to begin."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = bytes(range(256)) * 4096
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        writer = threading.Thread(target=lambda: write_when_read(pipe, data))
        writer.start()
        assert reader.stdout is not None
        assert reader.stdout.read() == data
        writer.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def write_when_read(pipe: Path, data: bytes) -> None:
    """Write to a pipe as soon as its reader is there."""
    while True:
        with suppress(OSError):
            write(pipe, data)
            return


def test_a_pipe_without_a_reader_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        assert refused(tmp_path / name) == (errno.ENXIO, "no process reads from this pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_pipe_whose_reader_has_gone_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    output = OutputFile(tmp_path / "pipe")
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        output.write(NEW)
    output.close()


def test_a_reader_sees_the_end_where_nothing_was_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    OutputFile(tmp_path / "pipe").close()
    assert os.read(reader, 10) == b""
    os.close(reader)


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"])
@pytest.mark.parametrize("linked", [False, True])
def test_an_open_descriptor_is_written_to_where_it_stands(tmp_path: Path, folder: str, linked: bool) -> None:
    """It is written to where it stands, as `>> file` has opened it, whatever is behind it."""
    if not Path(folder).is_dir():
        pytest.skip(f"no {folder}")
    (tmp_path / "log").write_text("before\n")
    reader, writer = os.pipe()
    appending = os.open(tmp_path / "log", os.O_WRONLY | os.O_APPEND)
    for number in (writer, appending):
        named = Path(folder, str(number))
        if linked:
            (tmp_path / f"link{number}").symlink_to(named)
            named = tmp_path / f"link{number}"
        write(named)
    assert os.read(reader, 10) == NEW
    assert (tmp_path / "log").read_text() == "before\nnew\n"
    for number in (reader, writer, appending):
        os.close(number)


def test_a_descriptor_that_cannot_be_written_to_is_refused(file: Path) -> None:
    number = os.open(file, os.O_RDONLY)
    assert refused(f"/dev/fd/{number}") == (errno.EBADF, f"descriptor {number} is open for reading only")
    os.close(number)
    assert refused(f"/dev/fd/{number}") == (errno.EBADF, f"descriptor {number} is not open")
    assert file.read_text() == "old\n"


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        write(device)
    except PermissionError:
        pytest.skip("no devices can be made here, or used")
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert names(tmp_path) == ["null"]


def test_a_device_that_is_full_is_an_error() -> None:
    assert refused("/dev/full") == (errno.ENOSPC, "No space left on device")


def test_what_is_neither_file_nor_pipe_is_refused(tmp_path: Path) -> None:
    import socket

    assert refused(tmp_path) == (errno.EISDIR, "it is a folder")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert refused(tmp_path / "socket") == (errno.EINVAL, "it is neither a file nor a pipe")
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file" / "report.html") == (errno.ENOTDIR, "Not a directory")
    assert refused("/proc/self/report.html")[0] in (errno.ENOENT, errno.EACCES, errno.EPERM)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if process.returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    file = small_disk / "report.html"
    file.write_text("old\n")
    assert refused(file, bytes(1 << 20)) == (errno.ENOSPC, "No space left on device")
    assert (file.read_text(), names(small_disk)) == ("old\n", ["report.html"])


def test_a_read_only_file_system_is_an_error(small_disk: Path) -> None:
    (small_disk / "report.html").write_text("old\n")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for name in ("report.html", "new.html", "folder/new.html"):
        assert refused(small_disk / name) == (errno.EROFS, "Read-only file system")
    assert (small_disk / "report.html").read_text() == "old\n"


def test_a_folder_and_a_file_that_may_not_be_written_to_are_left(tmp_path: Path, file: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    file.chmod(0o444)
    assert refused(file) == (errno.EACCES, "Permission denied")
    file.chmod(0o644)
    tmp_path.chmod(0o555)
    assert refused(file) == (errno.EACCES, "Permission denied")
    tmp_path.chmod(0o755)
    assert file.read_text() == "old\n"


def test_a_file_larger_than_may_be_written_is_left(file: Path) -> None:
    """A write that fails in the middle leaves the old file, and nothing beside it."""
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert refused(file, bytes(2000)) == (errno.EFBIG, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (file.read_text(), names(file.parent)) == ("old\n", ["report.html"])
