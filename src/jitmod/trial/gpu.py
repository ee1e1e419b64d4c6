"""The GPU of a trial: one is picked and pinned, and what it does meanwhile is written down, through NVML.

NVML needs `pip install 'jitmod[gpu]'`; without it, or without a GPU of NVIDIA, there is nothing to say.
https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PAUSE = 0.2  # seconds between two looks
_SLOWED = 0x04 | 0x08 | 0x20 | 0x40  # the bits of NVML for power, hardware and temperature that hold clocks down
_PLATFORMS = frozenset(["gpu", "cuda"])


@dataclass(frozen=True)
class Gpu:
    """One GPU. Sizes are in bytes, `clock` is the highest of its processors in MHz."""

    uuid: str
    name: str
    driver: str
    memory: int
    used: int
    clock: int | None


@dataclass
class Seen:
    """What was seen of a GPU: how busy it was in per cent, its clock in MHz, whether something held that down."""

    busy: list[int] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    slowed: list[bool] = field(default_factory=list)

    @property
    def summary(self) -> dict[str, Any]:
        """For the evidence; empty where nothing was seen."""
        if not self.busy:
            return {}
        busy = {"busy": statistics.median(self.busy), "busiest": max(self.busy)}
        found: dict[str, Any] = {"looks": len(self.busy), **busy}
        if self.clocks:
            found["clock"] = {"least": min(self.clocks), "median": statistics.median(self.clocks)}
        if self.slowed:
            found["slowed"] = sum(self.slowed) / len(self.slowed)
        return found


def pick(environ: Mapping[str, str]) -> Gpu | None:
    """Of the GPUs that jax would see the one with most free memory; None where there is none, or jax shall not."""
    if (environ.get("JAX_PLATFORMS") or "cuda").partition(",")[0] not in _PLATFORMS:
        return None
    with _library() as nvml:
        if nvml is None:
            return None
        all_of_them = [_gpu(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]
        allowed = _visible(environ)
        found = [one for one in all_of_them if one is not None]
        if allowed is not None:
            found = _allowed(allowed, all_of_them, environ)
        return max(found, key=lambda one: one.memory - one.used, default=None)


def pinned(gpu: Gpu | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The setting under which a child sees this GPU alone, by its name: numbers depend on who counts."""
    allowed = _visible(environ)
    if gpu is None or (allowed is not None and len(allowed) == 1):
        return {}
    return {_VISIBLE: gpu.uuid}


@contextlib.contextmanager
def watched(gpu: Gpu | None) -> Iterator[Seen]:
    """Look at a GPU now and then, from another thread, as long as the block lasts."""
    seen, ended = Seen(), threading.Event()
    if gpu is None:
        yield seen
        return
    watcher = threading.Thread(target=_watch, args=(gpu, seen, ended), daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def facts(gpu: Gpu) -> dict[str, Any]:
    """For the evidence."""
    return {"name": gpu.name, "uuid": gpu.uuid, "driver": gpu.driver, "memory": gpu.memory,
            "highest_clock": gpu.clock}  # fmt: skip


def _watch(gpu: Gpu, seen: Seen, ended: threading.Event) -> None:
    with _library() as nvml:
        if nvml is None:
            return
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
        )
        while not ended.wait(_PAUSE):
            with contextlib.suppress(nvml.NVMLError):
                seen.busy.append(int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))
                seen.clocks.append(int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)))
                if reasons is not None:
                    seen.slowed.append(bool(reasons(handle) & _SLOWED))


@contextlib.contextmanager
def _library() -> Iterator[Any]:
    """NVML, started; None where it is not installed or finds no driver."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, number: int) -> Gpu | None:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        clock = None
        with contextlib.suppress(nvml.NVMLError):
            clock = int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
        return Gpu(_text(nvml.nvmlDeviceGetUUID(handle)), _text(nvml.nvmlDeviceGetName(handle)),
                   _text(nvml.nvmlSystemGetDriverVersion()), int(memory.total), int(memory.used), clock)  # fmt: skip
    except nvml.NVMLError:
        return None


def _visible(environ: Mapping[str, str]) -> list[str] | None:
    """The numbers or names in CUDA_VISIBLE_DEVICES; None where it is not set."""
    value = environ.get(_VISIBLE)
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


def _allowed(names: Sequence[str], every: Sequence[Gpu | None], environ: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that such a list names, as CUDA reads it: names may be cut short, and nothing counts behind an entry
    that names none. Numbers are those of NVML only where CUDA counts alike; else they tell nothing here.
    """
    alike = len({one.name for one in every if one is not None}) == 1
    numbered = alike or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    found: list[Gpu] = []
    for name in names:
        if name.isdecimal():
            meant = every[int(name)] if numbered and int(name) < len(every) else None
        else:
            meant = next((one for one in every if one is not None and one.uuid.startswith(name)), None)
        if meant is None:
            break
        found.append(meant)
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
