"""Files of programs with their arguments: what is saved is what is loaded, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import vyre_cuda as vc
from vyre_cuda.testing.regression import load, save
from vyre_cuda.testing.strategies import programs_with_inputs


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=programs_with_inputs())
def test_what_is_saved_is_loaded(
    case: tuple[vc.Program, list[object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    program, arguments = case
    path = tmp_path_factory.mktemp("saved") / "case.vir"

    save(path, program, arguments, precision="ftz")
    loaded, values, options = load(path)

    assert loaded == program == vc.parse(path.read_text(encoding="utf-8"))
    assert options == {"precision": "ftz"}
    for before, after in zip(arguments, values, strict=True):
        assert np.asarray(before).tobytes() == np.asarray(after).tobytes()
        assert np.asarray(before).dtype == np.asarray(after).dtype
        assert isinstance(after, np.ndarray) is isinstance(before, np.ndarray)


def test_a_file_without_an_argument_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "case.vir"
    path.write_text("# y = 00\nprogram p\nin x: u8\nin y: u8\n")

    with pytest.raises(ValueError, match="x"):
        load(path)
