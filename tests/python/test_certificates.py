"""A certificate holds for its own two models alone, whoever wrote it: `verify` computes everything anew and hashes
what it has mapped. (attack: certificates, toctou)"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from conftest import FIXTURES
from doctored import doctored, header_and_data, llama, said, write_safetensors
from test_honest_copies import extremely_moved
from test_signals import has_mapped

FILES = ("config.json", "model.safetensors")


class Made:
    def __init__(self, regauge, folder):
        self.a, self.other = llama(folder / "a"), llama(folder / "other", seed=9)
        self.b, self.proof = folder / "b", folder / "proof.safetensors"
        regauge("act", self.a, "-o", self.b, "--random", 1)
        regauge("diff", self.a, self.b, "--certificate", self.proof)
        self.header, self.data = header_and_data(self.proof)


@pytest.fixture(scope="module")
def made(regauge, tmp_path_factory):
    return Made(regauge, tmp_path_factory.mktemp("made"))


def verify(a, b, proof):
    """Exit code and what was said."""
    done = subprocess.run(
        [os.environ["REGAUGE"], "verify", str(a), str(b), str(proof)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def digests(folder):
    return json.dumps({name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES})


def with_digests(header, text):
    return {**header, "__metadata__": {**header["__metadata__"], "certificate.b": text}}


def test_it_holds_for_its_own_two_models(made, tmp_path):
    assert verify(made.a, made.b, made.proof)[0] == 0
    # Copies, links and another tokenizer are the same files.
    shutil.copytree(made.b, tmp_path / "copy")
    (tmp_path / "copy" / "tokenizer.json").write_text("{}")
    assert verify(made.a, tmp_path / "copy", made.proof)[0] == 0
    (tmp_path / "links").mkdir()
    for name in FILES:
        (tmp_path / "links" / name).symlink_to(made.b / name)
    assert verify(made.a, tmp_path / "links", made.proof)[0] == 0
    # The same header, written again.
    again = write_safetensors(tmp_path / "again.safetensors", made.header, made.data)
    assert verify(made.a, made.b, again)[0] == 0


def test_it_holds_for_no_others(made):
    for a, b in ((made.a, made.other), (made.other, made.b), (made.b, made.a), (made.a, made.a), (made.b, made.b)):
        assert verify(a, b, made.proof)[0] in (1, 2)


def test_the_hashes_of_another_model(made, tmp_path):
    """The element does not carry it to A, whatever the certificate says."""
    forged = with_digests(made.header, digests(made.other))
    proof = write_safetensors(tmp_path / "proof.safetensors", forged, made.data)
    code, said = verify(made.a, made.other, proof)
    assert code == 1 and "layers." in said
    assert verify(made.a, made.b, proof)[0] == 1


NULLS = '{"model.safetensors": null, "config.json": null}'


@pytest.mark.parametrize("text", ["{}", NULLS, "[]", "", "{", '{"x": "y"}'])
def test_hashes_that_say_nothing(made, tmp_path, text):
    proof = write_safetensors(tmp_path / "proof.safetensors", with_digests(made.header, text), made.data)
    assert verify(made.a, made.b, proof)[0] in (1, 2)


def test_one_hash_left_out(made, tmp_path):
    for name in FILES:
        stated = json.loads(made.header["__metadata__"]["certificate.b"])
        assert set(stated) == set(FILES)
        del stated[name]
        forged = with_digests(made.header, json.dumps(stated))
        proof = write_safetensors(tmp_path / f"{name}.safetensors", forged, made.data)
        assert verify(made.a, made.b, proof)[0] in (1, 2)


def test_no_element(made, tmp_path):
    forged = {"__metadata__": made.header["__metadata__"]}
    assert verify(made.a, made.b, write_safetensors(tmp_path / "proof.safetensors", forged))[0] in (1, 2)


@pytest.mark.parametrize("factor", [1 + 1e-5, 1.01, -1.0, 0.0, float("nan"), float("inf")])
def test_an_element_that_is_not_in_the_group(made, tmp_path, factor):
    first, last = made.header["residual.blocks"]["data_offsets"]
    blocks = np.frombuffer(made.data[first:last], np.float64) * factor
    data = made.data[:first] + blocks.tobytes() + made.data[last:]
    assert verify(made.a, made.b, write_safetensors(tmp_path / "proof.safetensors", made.header, data))[0] in (1, 2)


def test_stated_residuals_are_not_believed(regauge, made, tmp_path):
    """Zeros in a certificate of another model, and NaN in an honest one."""
    first, last = made.header["note.residuals"]["data_offsets"]
    for fill in (b"\x00", b"\xff"):
        data = made.data[:first] + fill * (last - first) + made.data[last:]
        forged = with_digests(made.header, digests(made.other))
        proof = write_safetensors(tmp_path / f"proof{fill.hex()}.safetensors", forged, data)
        assert verify(made.a, made.other, proof)[0] in (1, 2)


def test_a_config_that_changed_since(regauge, made, tmp_path):
    """By folder and by file; the config is part of the model either way."""
    by_file = tmp_path / "proof.safetensors"
    regauge("diff", made.a / FILES[1], made.b / FILES[1], "--certificate", by_file)
    assert verify(made.a / FILES[1], made.b / FILES[1], by_file)[0] == 0
    rope = {"rope_type": "default", "rope_theta": 3.0}
    a, b = (
        doctored(folder, tmp_path / folder.name, rms_norm_eps=0.5, rope_parameters=rope) for folder in (made.a, made.b)
    )
    assert verify(a, b, made.proof)[0] in (1, 2)
    assert verify(a / FILES[1], b / FILES[1], by_file)[0] in (1, 2)


def test_what_only_honest_copies_decide_has_no_certificate(regauge, tmp_path):
    """`verify` makes no honest copies: it would refuse what `diff` accepts, so nothing is written, and that is said."""
    a = FIXTURES / "gpt_neox"
    b = extremely_moved(regauge, a, tmp_path, 30.0, 0, "F32")
    proof = tmp_path / "proof.safetensors"
    for more in ((), ("--certificate", proof)):
        assert said(a, b, *more)["statement"] == "other-coordinates"
    done = subprocess.run(
        [os.environ["REGAUGE"], "diff", str(a), str(b), "--certificate", str(proof)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "no certificate: " in done.stderr and "only as honest copies of A do" in done.stderr
    assert not proof.exists()


def test_a_permuted_vocabulary_has_no_certificate(regauge, made, tmp_path):
    order = torch.randperm(128, generator=torch.Generator().manual_seed(0))
    tokens = [f"token{i}" for i in range(128)]

    def permute(tensors):
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = tensors[name][order]

    a, b = doctored(made.a, tmp_path / "a"), doctored(made.a, tmp_path / "b", permute)
    for folder, known in ((a, tokens), (b, [tokens[i] for i in order])):
        (folder / "vocab.txt").write_text("\n".join(known))
    proof = tmp_path / "proof.safetensors"
    done = subprocess.run(
        [os.environ["REGAUGE"], "diff", str(a), str(b), "--tokenizer", "--certificate", str(proof)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("the same function, in other coordinates")
    assert "no certificate: a certificate cannot say that tokens stand in another order" in done.stderr
    assert not proof.exists()


def test_no_certificate_without_a_verdict(regauge, made, tmp_path):
    for a, b in ((made.a, made.other), (made.a, doctored(made.b, tmp_path / "c", is_causal=False))):
        regauge("diff", a, b, "--certificate", tmp_path / "proof.safetensors", expect=1)
        assert not (tmp_path / "proof.safetensors").exists()




def test_a_model_that_is_exchanged_while_it_is_verified(regauge, tmp_path):
    """The link to B leads to another model once B is mapped: the hash must be of what was mapped."""
    a, good, evil = llama(tmp_path / "a", vocab_size=4000, hidden_size=128), tmp_path / "good", tmp_path / "evil"
    regauge("act", a, "-o", good, "--random", 1)
    doctored(good, evil, lambda tensors: tensors["lm_head.weight"].neg_())
    proof, link = tmp_path / "proof.safetensors", tmp_path / "link"
    regauge("diff", a, good, "--certificate", proof)
    header, data = header_and_data(proof)
    forged = write_safetensors(tmp_path / "forged.safetensors", with_digests(header, digests(evil)), data)
    assert verify(a, evil, forged)[0] == 1 and verify(a, good, forged)[0] == 1
    link.symlink_to(good)
    process = subprocess.Popen(
        [os.environ["REGAUGE"], "verify", a, link, forged], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while process.poll() is None and not has_mapped(process, good / "model.safetensors"):
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    (tmp_path / "link2").symlink_to(evil)
    os.replace(tmp_path / "link2", link)
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=600)
    assert process.returncode in (1, 2), said
    assert "the certificate holds" not in said
