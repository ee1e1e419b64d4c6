"""Which GPU a trial takes, and what is written down of it, with an NVML that is made up."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from jitmod.delivery import figures
from jitmod.trial import gpu, profile


class Failed(Exception):
    pass


class Nvml(ModuleType):
    """Two GPUs, the first of which is in use; `held` are the bits that say why clocks are low."""

    NVMLError = Failed
    NVML_CLOCK_SM = 1

    def __init__(self, held: int = 0, driver: bool = True) -> None:
        super().__init__("pynvml")
        self.held, self.driver, self.open = held, driver, 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise Failed("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.1"

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return ["GPU-aa", "GPU-bb"].index(uuid)

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return ["GPU-aa", "GPU-bb"][handle]

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=139 << 30, used=(100 << 30, 1 << 30)[handle])

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return 1980

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=12)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return 1755

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self.held


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    made = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


@pytest.mark.parametrize(
    ("environ", "picked", "setting"),
    [
        pytest.param({}, "GPU-bb", {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, id="the one with room"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0,1"}, "GPU-bb", {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, id="of several"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, "GPU-aa", {}, id="chosen by number"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-a"}, "GPU-aa", {}, id="chosen by name"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, "GPU-aa", {"CUDA_VISIBLE_DEVICES": "GPU-aa"}, id="cut short"),
        pytest.param({"JAX_PLATFORMS": ""}, "GPU-bb", {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, id="an empty wish"),
        pytest.param({"CUDA_VISIBLE_DEVICES": ""}, None, {}, id="none is to be seen"),
        pytest.param({"JAX_PLATFORMS": "cpu"}, None, {}, id="jax stays on the CPU"),
        pytest.param({"JAX_PLATFORMS": "cuda,cpu"}, "GPU-bb", {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, id="jax wants one"),
    ],
)
def test_one_gpu_is_picked_and_pinned(
    environ: dict[str, str], picked: str | None, setting: dict[str, str], nvml: Nvml
) -> None:
    found = gpu.pick(environ)
    assert (found.uuid if found is not None else None) == picked
    assert gpu.pinned(found, environ) == setting and nvml.open == 0


def test_numbers_that_cuda_may_count_otherwise_name_nothing(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "nvmlDeviceGetName", lambda handle: ("H200", "T400")[handle])
    environ = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpu.pick(environ) is None
    picked = gpu.pick({**environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert picked is not None and picked.uuid == "GPU-bb"


def test_a_profile_is_taken_on_the_gpu_of_the_trial(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(profile, "run_child", lambda request, **given: seen.append(given["settings"]) or {})
    places = {"code_root": tmp_path, "user_root": tmp_path, "python": Path(sys.executable)}
    assert profile.profile({}, 0, tmp_path / "traces", **places) == {}
    assert seen == [{"CUDA_VISIBLE_DEVICES": "GPU-bb"}] * 2


@pytest.mark.parametrize("missing", ["library", "driver"])
def test_without_nvml_nothing_is_said(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None if missing == "library" else Nvml(driver=False))
    assert gpu.pick({}) is None
    with gpu.watched(None) as seen:
        pass
    assert seen.summary == {}


def test_what_a_gpu_does_is_seen(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_PAUSE", 0.001)
    nvml.held = 0x40
    picked = gpu.pick({})
    assert picked is not None
    with gpu.watched(picked) as seen:
        while len(seen.slowed) < 3:
            time.sleep(0.001)
    found = seen.summary
    assert found["busy"] == found["busiest"] == 12 and found["slowed"] == 1.0 and nvml.open == 0
    assert found["clock"] == {"least": 1755, "median": 1755}
    evidence = {"explore": {"wall_share": 0.9}, "judges": [{"gpu": {**gpu.facts(picked), **found}}]}
    assert figures.gpu(evidence) == (
        "NVIDIA H200, driver 570.1, 12 % busy, so mostly waiting for the host, 1755 of 1980 MHz, "
        "slowed down by heat or power for 100 % of the time"
    )
    assert figures.gpu({"judges": [{}]}) == ""
