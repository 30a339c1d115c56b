"""Names and values that somebody else chose cannot move the cursor, forge a line or turn the text round."""

import json
import os
import shutil
import struct
import subprocess

import pytest
import safetensors.numpy
from conftest import FIXTURES

LLAMA = FIXTURES / "llama"
# Up four lines, cleared to the end, a verdict, then invisible colours; a line of its own; a title; right to left.
EVIL = "x\r\x1b[4A\x1b[0J\nthe same function: the same numbers\x1b[8m\x1b]0;owned\x07\u202e\u2066\u0085\x9b2J\x7f"
# What may not be seen, besides line feeds that the program itself wrote.
FORBIDDEN = {chr(i) for i in (*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))} - {"\n"}


def run(*arguments):
    """Exit code, standard output, standard error; neither of which holds what it must not."""
    done = subprocess.run(
        [os.environ["REGAUGE"], *map(os.fsencode, map(str, arguments))], capture_output=True, check=False
    )
    out, err = done.stdout.decode(), done.stderr.decode()  # UTF-8, too
    assert not FORBIDDEN & set(out + err), (out, err)
    assert not any(line.startswith("the same function: the same numbers") for line in err.splitlines())
    return done.returncode, out, err


def with_tensor(folder, name, source=LLAMA):
    """A copy with one more tensor, as wide as the residual stream."""
    shutil.copytree(source, folder)
    raw = (source / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header[name] = {"dtype": "F32", "shape": [20], "data_offsets": [len(data), len(data) + 80]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data + bytes(80))
    return folder


def with_config(folder, **changes):
    shutil.copytree(LLAMA, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def test_the_name_of_a_tensor(tmp_path):
    evil = with_tensor(tmp_path / "evil", EVIL)
    run("inspect", evil)
    code, out, _ = run("inspect", evil, "--json")
    assert code == 0 and json.loads(out)["unclaimed"] == [EVIL]
    code, _, err = run("act", evil, "-o", tmp_path / "moved", "--random", 1)
    assert code == 0 and "\\u{1b}[4A\\u{1b}[0J\\nthe same" in err
    code, out, _ = run("act", evil, "-o", tmp_path / "again", "--random", 1, "--json")
    assert code == 0 and EVIL in json.loads(out)["unadapted"] + json.loads(out)["copied"]
    run("fold", evil, "-o", tmp_path / "folded")
    run("convert", evil, "--to", "gguf", "-o", tmp_path / "evil.gguf")


def test_the_name_of_a_tensor_in_a_comparison(tmp_path):
    evil = with_tensor(tmp_path / "evil", EVIL)
    other = tmp_path / "other"
    shutil.copytree(LLAMA, other)
    weights = safetensors.numpy.load_file(other / "model.safetensors")
    weights["lm_head.weight"] = -weights["lm_head.weight"]
    safetensors.numpy.save_file(weights, other / "model.safetensors")
    code, out, _ = run("diff", other, evil)
    assert code == 1
    assert not any(line.startswith("the same") for line in out.splitlines())
    code, out, _ = run("diff", other, evil, "--json")
    assert code == 1 and json.loads(out)["verdict"] != "same"
    run("diff", other, evil, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not FORBIDDEN & set(page)


@pytest.mark.parametrize("key", ["model_type", "hidden_act", "rope_theta", "torch_dtype", "architectures"])
def test_a_value_of_the_config(tmp_path, key):
    evil = with_config(tmp_path / "evil", **{key: [EVIL] if key == "architectures" else EVIL})
    run("inspect", evil)
    run("inspect", evil, "--json")
    run("diff", LLAMA, evil)


def test_a_key_of_the_config(tmp_path):
    run("diff", LLAMA, with_config(tmp_path / "evil", **{EVIL: 1}))


def test_a_shard(tmp_path):
    folder = tmp_path / "evil"
    shutil.copytree(LLAMA, folder)
    names = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {name: EVIL + ".safetensors" for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    code, _, err = run("inspect", folder)
    assert code == 2 and "\\u{1b}" in err


def test_the_name_of_a_folder(tmp_path):
    evil = tmp_path / (EVIL.replace("/", "") + "<script>")
    shutil.copytree(LLAMA, evil)
    assert run("inspect", evil)[0] == 0
    code, out, _ = run("inspect", evil, "--json")
    assert code == 0 and json.loads(out)["path"] == str(evil)
    run("act", evil, "-o", tmp_path / (EVIL + "out"), "--random", 1)
    run("inspect", tmp_path / (EVIL + "nowhere"))
    run("inspect", evil, EVIL)  # an argument too many
    run(EVIL)
    code, _, _ = run("diff", LLAMA, evil, "--html", tmp_path / "page.html")
    assert code == 0
    page = (tmp_path / "page.html").read_text()
    assert not FORBIDDEN & set(page) and "<script>" not in page


def test_a_path_that_is_not_utf8(tmp_path):
    bad = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff\xfe")
    shutil.copytree(LLAMA, bad)
    for words in (
        ["inspect", bad],
        ["inspect", bad, "--json"],
        ["diff", LLAMA, bad, "--json"],
        ["diff", LLAMA, LLAMA, "--html", bad + ".html"],
        ["act", bad, "-o", tmp_path / "out", "--random", 1],
        ["act", LLAMA, "-o", bad + "out", "--random", 1],
    ):
        code, out, err = run(*words)
        assert code == 2 and out == "" and "not UTF-8" in err and "\\xff\\xfe" in err, words
    assert not (tmp_path / "out").exists()


def test_a_link_out_of_the_folder(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(LLAMA, folder)
    (tmp_path / "secret").write_text("private")
    (folder / "tokenizer.json").symlink_to("../secret")
    code, _, err = run("act", folder, "-o", tmp_path / "out", "--random", 1)
    assert code == 2 and "tokenizer.json is a link to" in err
    assert not (tmp_path / "out").exists()


def test_a_snapshot_of_a_cache(tmp_path):
    """Where every file is a link to a blob."""
    repository = tmp_path / "models--a--b"
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for number, name in enumerate(("config.json", "model.safetensors", "tokenizer.json")):
        blob = repository / "blobs" / str(number)
        blob.write_bytes((LLAMA / name).read_bytes() if (LLAMA / name).exists() else b"{}")
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    assert run("act", snapshot, "-o", tmp_path / "out", "--random", 1)[0] == 0
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert not (tmp_path / "out" / "tokenizer.json").is_symlink()
