"""File systems unlike those of Linux, made in files for the purpose."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest

SIZE = 64 << 20


@contextmanager
def sshfs(folder: Path) -> Iterator[Path]:
    """A folder over SFTP, served through a pipe: attributes are cached, and what has two names passes for two files."""
    server = shutil.which("sftp-server", path="/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh")
    if os.geteuid() != 0 or shutil.which("sshfs") is None or server is None:
        pytest.skip("needs root, sshfs and sftp-server")
    served, disk = folder / "served", folder / "disk"
    served.mkdir()
    disk.mkdir()
    with subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as serving:
        words = ["sshfs", "-f", "-o", "passive", f":{served}", str(disk)]
        client = subprocess.Popen(words, stdin=serving.stdout, stdout=serving.stdin, stderr=subprocess.DEVNULL)
        try:
            while client.poll() is None and not os.path.ismount(disk):
                sleep(0.01)
            if client.poll() is not None:
                pytest.skip("sshfs cannot be mounted here")
            yield disk
        finally:
            if os.path.ismount(disk):
                subprocess.run(["umount", "--lazy", str(disk)], check=True)
            client.kill()
            client.wait()
            serving.kill()


def remount(disk: Path) -> None:
    """Unmount a file system and mount it again, from the same device."""
    fields = next(line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {disk} " in line)
    kind, device = fields[fields.index("-") + 1 :][:2]
    subprocess.run(["umount", str(disk)], check=True)
    way = ["mount.exfat-fuse"] if kind == "fuseblk" else ["mount", "-i", "-t", kind]
    subprocess.run([*way, device, str(disk)], capture_output=True, check=True)


@contextmanager
def exfat(folder: Path) -> Iterator[Path]:
    """An exFAT of the kernel's or of FUSE: it ignores case and has no hard links, links, modes and times of change."""
    if os.geteuid() != 0 or shutil.which("mkfs.exfat") is None:
        pytest.skip("needs root and mkfs.exfat")
    image, disk = folder / "image", folder / "disk"
    image.touch()
    os.truncate(image, SIZE)
    disk.mkdir()
    subprocess.run(["mkfs.exfat", str(image)], capture_output=True, check=True)
    loop = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if loop.returncode:
        pytest.skip(f"there is no loop device: {loop.stderr.strip()}")
    device = loop.stdout.strip()
    try:
        told = [
            subprocess.run(way, capture_output=True, text=True, check=False)
            for way in (["mount", "-i", "-t", "exfat", device, str(disk)], ["mount.exfat-fuse", device, str(disk)])
            if shutil.which(way[0]) and not os.path.ismount(disk)
        ]
        if not os.path.ismount(disk):
            pytest.skip(f"exFAT cannot be mounted here: {told[-1].stderr.strip()}")
        yield disk
    finally:
        if os.path.ismount(disk):
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
        subprocess.run(["losetup", "--detach", device], check=True)
