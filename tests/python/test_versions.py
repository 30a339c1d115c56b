"""Elements and certificates that earlier programs wrote are read, and mean what they meant.

tests/fixtures/versions/MODEL: `a`, `b` = the element of seed 1 on `a`, and for every version of the format the element
and the certificate as the program of that time wrote them."""

import shutil

import numpy as np
import pytest
from conftest import FIXTURES
from doctored import header_and_data, write_safetensors
from safetensors.numpy import load_file
from test_certificates import verify

VERSIONS = FIXTURES / "versions"
CASES = [(model, version) for model in ("llama", "gpt2") for version in (1, 2)]


@pytest.mark.parametrize(("model", "version"), CASES)
def test_an_element_is_what_its_seed_draws(regauge, model, version, tmp_path):
    regauge("act", VERSIONS / model / "a", "-o", tmp_path / "b", "--random", 1, "--save-element", tmp_path / "now.safetensors")
    now, then = load_file(tmp_path / "now.safetensors"), load_file(VERSIONS / model / f"element-{version}.safetensors")
    assert now.keys() == then.keys()
    assert len(now) > 3
    for name, value in now.items():
        assert np.array_equal(value, then[name]), name


@pytest.mark.parametrize(("model", "version"), CASES)
def test_an_element_moves_a_model_as_it_did(regauge, model, version, tmp_path):
    element = VERSIONS / model / f"element-{version}.safetensors"
    regauge("act", VERSIONS / model / "a", "-o", tmp_path / "b", "--element", element)
    now, then = load_file(tmp_path / "b/model.safetensors"), load_file(VERSIONS / model / "b/model.safetensors")
    before = load_file(VERSIONS / model / "a/model.safetensors")
    moved = 0
    for name, value in then.items():
        np.testing.assert_allclose(now[name], value, rtol=1e-5, atol=1e-6 * np.abs(value).max(), err_msg=name)
        moved += not np.allclose(value, before[name], rtol=1e-2)
    assert moved > len(then) / 2


@pytest.mark.parametrize(("model", "version"), CASES)
def test_a_certificate_holds_for_its_models_alone(model, version, tmp_path):
    proof = VERSIONS / model / f"certificate-{version}.safetensors"
    code, told = verify(VERSIONS / model / "a", VERSIONS / model / "b", proof)
    assert code == 0, told
    other = tmp_path / "other"
    shutil.copytree(VERSIONS / model / "b", other)
    header, data = header_and_data(other / "model.safetensors")
    write_safetensors(other / "model.safetensors", header, data[:-1] + bytes([data[-1] ^ 1]))
    code, told = verify(VERSIONS / model / "a", other, proof)
    assert code == 1 and "is not the file" in told, told


def test_a_later_version_is_refused(tmp_path):
    header, data = header_and_data(VERSIONS / "llama/certificate-2.safetensors")
    header["__metadata__"]["version"] = "3"
    write_safetensors(tmp_path / "later.safetensors", header, data)
    code, told = verify(VERSIONS / "llama/a", VERSIONS / "llama/b", tmp_path / "later.safetensors")
    assert code == 2 and "is of version 3; this program reads up to 2" in told, told
