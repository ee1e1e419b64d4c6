"""Entry of a recorded program: stands between the interpreter and the user's script, and is seen by neither.

`python [OPTIONS] record.py REQUEST x.py ARGUMENTS`, or `-m MODULE`, or `-c CODE` in the place of `x.py`.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def _load_package() -> None:
    """Make this folder the package `_jitmod_child`, and take it off the import path."""
    folder = os.path.dirname(os.path.abspath(__file__))
    if not sys.flags.safe_path:
        del sys.path[0]
    spec = importlib.util.spec_from_file_location(
        "_jitmod_child", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["_jitmod_child"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    _load_package()
    from _jitmod_child.record_main import main  # type: ignore[import-not-found]

    main(sys.argv[1], sys.argv[2:])
