"""Memory of arenas and GPUs, from the log of ONNX Runtime and from nvidia-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.targets import Provider, Target
from orun.errors import DeviceUnknown
from orun.measure.latency.peak_memory import parse_arena_bytes, read_gpu_memory

LOG = """
I [I:onnxruntime:Default, bfc_arena.cc:33 BFCArena] Creating BFCArena for Cpu with following configs: ...
I [I:onnxruntime:, bfc_arena.cc:295 Reserve] Reserving memory in BFCArena for Cpu size: 33554432
I [I:onnxruntime:, bfc_arena.cc:295 Reserve] Reserving memory in BFCArena for Cuda size: 1000
I [I:onnxruntime:Default, bfc_arena.cc:347 AllocateRawInternal] Extending BFCArena for Cpu. bin_num:0 num_bytes: 256
I [I:onnxruntime:Default, bfc_arena.cc:206 Extend] Extended allocation by 1048576 bytes.
I [I:onnxruntime:Default, bfc_arena.cc:209 Extend] Total allocated bytes: 1048576
I [I:onnxruntime:Default, bfc_arena.cc:347 AllocateRawInternal] Extending BFCArena for Cuda. bin_num:0 num_bytes: 256
I [I:onnxruntime:Default, bfc_arena.cc:206 Extend] Extended allocation by 2097152 bytes.
I [I:onnxruntime:Default, bfc_arena.cc:347 AllocateRawInternal] Extending BFCArena for Cpu. bin_num:9 num_bytes: 256
I [I:onnxruntime:Default, bfc_arena.cc:206 Extend] Extended allocation by 4194304 bytes.
"""


def test_an_arena_is_what_it_reserved_and_grew_by() -> None:
    assert parse_arena_bytes(LOG) == 33554432 + 1048576 + 4194304
    assert parse_arena_bytes("nothing") == 0


def test_memory_of_the_gpu_that_the_target_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\ncase "$*" in *--query-gpu=memory.used*--id=1) echo 512;; *) echo 3;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    second = Provider("CUDAExecutionProvider", {"device_id": "1"})
    assert read_gpu_memory(Target("gpu", (Provider("CPUExecutionProvider"), second))) == 512 << 20
    assert read_gpu_memory(Target("gpu", (Provider("TensorrtExecutionProvider"), second))) == 3 << 20
    assert read_gpu_memory(Target("cpu")) is None
    program.write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(DeviceUnknown, match="the GPU of this machine cannot be read"):
        read_gpu_memory(Target("gpu", (second,)))
