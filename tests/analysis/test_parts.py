"""Attributes of values of known kinds."""

import textwrap

from jitmod.analysis.infer import Inference
from jitmod.analysis.values import Number, Routine
from jitmod.source.document import Document
from jitmod.source.project import Project


def _project(**files: str) -> Project:
    texts = {f"{name}.py": textwrap.dedent(text) for name, text in files.items()}
    return Project.of({path: Document.parse(path, text.encode()) for path, text in texts.items()})


def test_what_a_base_class_of_another_file_binds_in_a_branch_is_read_there():
    project = _project(
        base="""
            class Base:
                size = 3
                if True:
                    def build(self):
                        return 1
        """,
        user="""
            from base import Base

            class User(Base):
                pass

            made = User.build
            size = User.size
        """,
    )
    module = project.modules["user"]
    infer = Inference(project)
    made, size = (module.scope.bindings[name][0].value for name in ("made", "size"))
    assert isinstance(infer.kind(made, module), Routine)
    assert infer.kind(size, module) == Number("int")
