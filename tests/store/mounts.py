"""File systems unlike those of Linux, made in files for the purpose."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE = 64 << 20


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
