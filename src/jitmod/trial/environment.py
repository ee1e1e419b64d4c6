"""What of the caller's environment a trial's child gets to see: an allowlist, and never anything secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_NAMES = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TEMP", "TMP",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "MPLBACKEND", "HF_HOME",
    "TORCH_HOME", "PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONNOUSERSITE", "PYTHONWARNINGS",
    "PYTHONSAFEPATH",
    # Of TensorFlow, whose runtime XLA shares; other tools use the prefix TF_ as well, Terraform for secrets
    "TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_VMODULE", "TF_XLA_FLAGS", "TF_GPU_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH", "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "TF_CUDNN_USE_AUTOTUNE",
    "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_USE_LEGACY_KERAS",
}  # fmt: skip
_PREFIXES = (
    "LC_", "XDG_", "JAX_", "XLA_", "EQX_", "JAXTYPING_", "CUDA_", "NVIDIA_", "NCCL_", "ROCR_", "HIP_", "TPU_",
    "OMP_", "MKL_", "OPENBLAS_",
)  # fmt: skip
_SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")

_FIXED = {
    # glibc would map and trim large buffers anew on every call, differently in each arm
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
_DROPPED = {"JAX_COMPILATION_CACHE_DIR", "JAX_LOG_COMPILES", "JAX_TRACEBACK_FILTERING"}


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The allowed part of `environ`, and the settings under which times can be compared."""
    allowed = {
        name: value
        for name, value in environ.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and name not in _DROPPED
        and not _SECRET.search(name) and not _WITH_PASSWORD.search(value)
    }  # fmt: skip
    return allowed | _FIXED


def may_be_secret(word: str) -> bool:
    """Whether a word of a command line must not be kept."""
    known = [value for name, value in os.environ.items() if len(value) >= 6 and name in secret_names(os.environ)]
    return bool(_SECRET.search(word) or _WITH_PASSWORD.search(word)) or any(value in word for value in known)


def secret_names(environ: Mapping[str, str]) -> list[str]:
    """The variables whose values nothing may keep: those with a telling name, and addresses that hold a password."""
    return [name for name, value in environ.items() if _SECRET.search(name) or _WITH_PASSWORD.search(value)]
