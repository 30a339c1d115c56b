"""`diff --in-toto`: a statement that the tools of supply chains read and sign, and that `verify` does not believe."""

import base64
import json
import os
import shutil
import subprocess

import pytest
from conftest import FIXTURES
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementProto
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner
from sigstore.dsse import Statement as SigstoreStatement
from sigstore.errors import Error as SigstoreError

PAYLOAD = "application/vnd.in-toto+json"


class Made:
    def __init__(self, regauge, folder):
        self.a, self.b, self.other = folder / "a", folder / "b", folder / "other"
        shutil.copytree(FIXTURES / "llama", self.a)
        regauge("act", self.a, "-o", self.b, "--random", 1)
        regauge("act", self.a, "-o", self.other, "--random", 2)
        self.proof, self.file = folder / "proof.safetensors", folder / "verdict.json"
        regauge("diff", self.a, self.b, "--certificate", self.proof, "--in-toto", self.file)
        self.statement = json.loads(self.file.read_text())

    def beside(self, folder, content):
        """A file with this content beside a copy of the certificate."""
        shutil.copy(self.proof, folder)
        path = folder / "changed.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path


@pytest.fixture(scope="module")
def made(regauge, tmp_path_factory):
    return Made(regauge, tmp_path_factory.mktemp("made"))


def verify(a, b, proof):
    done = subprocess.run([os.environ["REGAUGE"], "verify", a, b, proof], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def changed(whole, **predicate):
    return {**whole, "predicate": {**whole["predicate"], **predicate}}


def test_the_libraries_of_in_toto_and_sigstore_take_it(made):
    one = made.statement
    Statement.copy_from_pb(json_format.Parse(made.file.read_text(), StatementProto())).validate()
    SigstoreStatement(made.file.read_bytes())
    with pytest.raises(SigstoreError):  # it looks at what it is given
        SigstoreStatement(json.dumps({**one, "subject": []}).encode())
    subjects = {subject["name"] for subject in one["subject"]}
    assert subjects == {f"{side}/{file}" for side in "ab" for file in ("config.json", "model.safetensors")}
    assert one["predicate"]["verdict"] == "same" and one["predicate"]["statement"] == "other-coordinates"


def test_it_holds_for_its_own_two_models(made):
    assert verify(made.a, made.b, made.file)[0] == 0
    for a, b in ((made.a, made.other), (made.b, made.a), (made.a, made.a)):
        assert verify(a, b, made.file)[0] == 1


def test_a_signed_statement_is_read_and_its_signature_is_the_signers_business(made, tmp_path):
    signer = CryptoSigner.generate_ed25519()
    envelope = Envelope(made.file.read_bytes(), PAYLOAD, {})
    envelope.sign(signer)
    signed = envelope.to_dict()
    assert verify(made.a, made.b, made.beside(tmp_path, signed))[0] == 0
    Envelope.from_dict(json.loads(json.dumps(signed))).verify([signer.public_key], 1)
    bundle = {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": signed}
    assert verify(made.a, made.b, made.beside(tmp_path, bundle))[0] == 0
    # A negative control of the other side: a payload that was changed is not signed, and is not true either.
    payload = json.dumps(changed(made.statement, statement="identical")).encode()
    forged = {**signed, "payload": base64.b64encode(payload).decode()}
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads(json.dumps(forged))).verify([signer.public_key], 1)
    code, said = verify(made.a, made.b, made.beside(tmp_path, forged))
    assert code == 1 and "'other-coordinates' at most" in said


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda s: changed(s, statement="identical"), "'other-coordinates' at most"),
        (lambda s: changed(s, verdict="perturbed"), "'perturbed'"),
        (lambda s: {**s, "subject": s["subject"][:-1]}, "is not the file that the statement was made of"),
        (lambda s: {**s, "subject": [*s["subject"], {"name": "c", "digest": {"sha256": "0"}}]}, "is about 5 files and not 4"),
        (lambda s: changed(s, certificate={**s["predicate"]["certificate"], "digest": {"sha256": "0" * 64}}), "is not the certificate that"),
    ],
)
def test_what_is_not_true_is_told(made, tmp_path, change, said):
    code, answer = verify(made.a, made.b, made.beside(tmp_path, change(made.statement)))
    assert code == 1 and said in answer


@pytest.mark.parametrize(
    "content, said",
    [
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "no statement of in-toto"),
        (lambda s: {**s, "predicateType": "https://slsa.dev/provenance/v1"}, "its predicate is https://slsa.dev/provenance/v1"),
        (lambda s: changed(s, certificate={}), "names no certificate"),
        (lambda s: changed(s, certificate={"name": "../proof.safetensors"}), "names no certificate"),
        (lambda s: changed(s, certificate={"name": "missing.safetensors"}), "does not lie beside it"),
        (lambda s: changed(s, certificate={"name": "changed.json"}), "is no certificate"),
        ({"payloadType": "text/plain", "payload": ""}, "does not hold application/vnd.in-toto+json"),
        ({"payloadType": PAYLOAD, "payload": "?"}, "not base64"),
        ({"payloadType": PAYLOAD, "payload": "AAAA"}, "JSON"),
        ({"payload": [], "payloadType": PAYLOAD}, "does not hold"),
        ("{", "JSON"),
        ('{"_type": "https://in-toto.io/Statement/v1", "predicate": [], "predicateType": 3}', "its predicate is"),
    ],
)
def test_what_is_no_statement_is_refused(made, tmp_path, content, said):
    content = content(made.statement) if callable(content) else content
    code, answer = verify(made.a, made.b, made.beside(tmp_path, content))
    assert code == 2 and said in answer


def test_identical_files_are_stated_to_be_identical(regauge, made, tmp_path):
    file = tmp_path / "verdict.json"
    regauge("diff", made.a, made.a, "--certificate", tmp_path / "proof.safetensors", "--in-toto", file)
    assert json.loads(file.read_text())["predicate"]["statement"] == "identical"
    assert verify(made.a, made.a, file)[0] == 0


def test_nothing_is_stated_of_models_that_differ(regauge, tmp_path):
    regauge("demo", tmp_path / "demo")
    pair = [tmp_path / "demo" / "original", tmp_path / "demo" / "converted"]
    regauge("diff", *pair, "--certificate", tmp_path / "proof.safetensors", "--in-toto", tmp_path / "verdict.json", expect=1)
    assert not (tmp_path / "verdict.json").exists() and not (tmp_path / "proof.safetensors").exists()
    said = subprocess.run([os.environ["REGAUGE"], "diff", *pair, "--in-toto", tmp_path / "verdict.json"], capture_output=True, text=True, check=False)
    assert said.returncode == 2 and "--certificate" in said.stderr


def test_parts_take_a_statement(regauge, made, tmp_path):
    for part in ("1/2", "2/2"):
        regauge("verify", made.a, made.b, made.file, "--part", part, "-o", tmp_path / part[0])
    assert "holds" in regauge("verify", "--join", tmp_path / "1", tmp_path / "2")
    false = made.beside(tmp_path, changed(made.statement, statement="identical"))
    for part in ("1/2", "2/2"):
        regauge("verify", made.a, made.b, false, "--part", part, "-o", tmp_path / f"false-{part[0]}")
    assert "at most" in regauge("verify", "--join", tmp_path / "false-1", tmp_path / "false-2", expect=1)
