"""`jitmod` with the toy codemod and the toy trial, as a process of its own that a test can kill."""

from __future__ import annotations

import sys
from types import ModuleType

from toy import Toy, TrialLog, WholeTrial

from jitmod.cli.main import main
from jitmod.rewrite import codemod

if __name__ == "__main__":
    module = ModuleType("jitmod.trial.trial")
    module.try_patch, module.try_arms = TrialLog(proven=True), WholeTrial()  # type: ignore[attr-defined]
    sys.modules["jitmod.trial.trial"] = module
    codemod.available = lambda: {"toy": Toy}
    main()
