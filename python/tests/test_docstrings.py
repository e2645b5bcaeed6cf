"""Everything that is public has a docstring, and a place in the reference."""

import inspect

import earmark
import pytest
from conftest import REPOSITORY

PUBLIC = [name for name in earmark.__all__ if name not in ("Outcome", "__version__")]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_described(name):
    thing = getattr(earmark, name)
    assert inspect.getdoc(thing)
    reference = (REPOSITORY / "docs" / "python-reference.md").read_text()
    assert f":: earmark.{name}\n" in reference or f":: earmark.{name}()\n" in reference
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and not inspect.ismemberdescriptor(value):
                assert inspect.getdoc(value), f"{name}.{member}"
