"""Models behind https:// and hf://, from servers that behave and from such that do not."""

import json
import os
import re
import shutil
import struct
import subprocess

import numpy
import pytest
import safetensors.numpy
from hub_server import COMMIT, SIGNATURE, TOKEN, Hub, hub_is_installed, misbehaving

WIDTH, LAYERS, WORDS, FEED = 256, 4, 3000, 1024


def write_llama(folder, seed):
    """A Llama of 20 MB, of several pieces."""
    folder.mkdir(parents=True)
    random = numpy.random.default_rng(seed)
    shapes = {"model.embed_tokens.weight": (WORDS, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (WORDS, WIDTH)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        for name in "qkvo":
            shapes[f"{layer}.self_attn.{name}_proj.weight"] = (WIDTH, WIDTH)
        for name in ("gate", "up"):
            shapes[f"{layer}.mlp.{name}_proj.weight"] = (FEED, WIDTH)
        shapes[f"{layer}.mlp.down_proj.weight"] = (WIDTH, FEED)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}.{name}.weight"] = (WIDTH,)
    tensors = {name: random.standard_normal(shape, dtype=numpy.float32) for name, shape in shapes.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": FEED, "vocab_size": WORDS,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def header_bytes(file):
    with open(file, "rb") as opened:
        return 8 + struct.unpack("<Q", opened.read(8))[0]


@pytest.fixture(scope="module", autouse=True)
def remote_build():
    if "this build reads no remote files" in regauge_run("inspect", "hf://none").stderr:
        pytest.skip("REGAUGE was built without remote files (-DREGAUGE_WITH_REMOTE=ON)")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("models") / "llama", 1)


@pytest.fixture(scope="module")
def changed(model, tmp_path_factory):
    """One number of the last layer is another."""
    folder = tmp_path_factory.mktemp("models") / "changed"
    shutil.copytree(model, folder)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    tensors[f"model.layers.{LAYERS - 1}.mlp.up_proj.weight"][5, 7] += 1
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def hub(model, changed, tmp_path_factory):
    if not hub_is_installed():
        pytest.skip("nginx or openssl is not installed (tools/debian-packages.txt)")
    hub = Hub(tmp_path_factory.mktemp("hub"))
    shutil.copytree(model, hub.files / "org" / "llama")
    shutil.copytree(changed, hub.files / "private" / "llama")
    shutil.copytree(model, hub.files / "plain")
    yield hub
    hub.stop()


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("REGAUGE_CACHE", str(tmp_path / "cache"))
    for name in ("HF_TOKEN", "SSL_CERT_FILE", "REGAUGE_CACHE_SIZE", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def on_hub(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    hub.forget_log()
    return hub


def error_of(regauge, *arguments):
    """The sentence with which a command refuses."""
    run = regauge_run(*arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stderr.count("\n") == 1
    return run.stderr


def regauge_run(*arguments):
    return subprocess.run([os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, text=True, check=False)


def test_a_model_on_the_hub_is_the_local_one(regauge, on_hub, model, changed):
    assert regauge("diff", "hf://org/llama@main", model).startswith("identical")
    told = regauge("diff", changed, "hf://org/llama", expect=1)
    assert "not the same function" in told
    assert "layers.3.ffn.up" in told


def test_inspect_reads_headers_only(regauge, on_hub, model):
    local = json.loads(regauge("inspect", model, "--json"))
    remote = json.loads(regauge("inspect", "hf://org/llama", "--json"))
    fetched = sum(int(line[2]) for line in on_hub.log() if line[1] == "206")
    assert remote["fetched"]["bytes"] == fetched
    assert fetched < 2 * header_bytes(model / "model.safetensors") + 3 * 65536
    assert fetched < (model / "model.safetensors").stat().st_size / 50
    for same in ("architecture", "parameters", "factors"):
        assert remote[same] == local[same]
    text = regauge("inspect", "hf://org/llama")
    assert re.search(r"fetched [\d.]+ KB in \d+ requests", text)
    assert "fetched" not in regauge("inspect", model)


def test_a_revision_is_followed_to_its_commit(regauge, on_hub):
    regauge("inspect", "hf://org/llama@main")
    asked = [line[5] for line in on_hub.log() if line[0] == str(on_hub.cdn)]
    assert asked == ["/org/llama/model.safetensors"]  # and not by another request to look whether it is there
    assert COMMIT not in regauge("inspect", "hf://org/llama@main")
    regauge("inspect", f"hf://org/llama@{COMMIT}")
    assert "no config.json" in error_of(regauge, "inspect", "hf://org/llama@elsewhere")


def test_the_token_goes_to_the_hub_and_nowhere_else(regauge, on_hub, changed, monkeypatch):
    refused = error_of(regauge, "inspect", "hf://private/llama")
    assert "HF_TOKEN" in refused
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    on_hub.forget_log()
    assert regauge("diff", "hf://private/llama", changed).startswith("identical")
    sent = {(line[0], line[3]) for line in on_hub.log()}
    assert sent == {(str(on_hub.hub), f"Bearer {TOKEN}"), (str(on_hub.cdn), "-")}
    monkeypatch.setenv("HF_TOKEN", "wrong")
    on_hub.forget_log()
    refused = error_of(regauge, "diff", "hf://private/llama", changed)
    assert "wrong" not in refused
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", "https://huggingface.co")
    on_hub.forget_log()
    error_of(regauge, "inspect", f"{on_hub.endpoint}/private/llama/resolve/main")  # not the endpoint: no token
    assert {line[3] for line in on_hub.log()} == {"-"}


def test_a_link_with_a_signature_is_read_and_never_shown(regauge, on_hub, model, tmp_path):
    gguf = tmp_path / "llama.gguf"
    regauge("convert", model, "--to", "gguf", "-o", gguf)
    shutil.copy(gguf, on_hub.files / "llama.gguf")
    link = f"http://127.0.0.1:{on_hub.cdn}/llama.gguf?signature={SIGNATURE}"
    run = regauge_run("diff", link, gguf, "--json")
    assert run.returncode == 0, run.stderr
    assert SIGNATURE not in run.stdout + run.stderr
    assert SIGNATURE not in regauge("inspect", link)
    refused = error_of(regauge, "inspect", link.replace("signed", "forged"))
    assert "forged" not in refused
    assert "403" in refused


def test_the_second_time_comes_from_the_cache(regauge, on_hub, model, tmp_path):
    regauge("diff", "hf://org/llama", model)
    first = sum(int(line[2]) for line in on_hub.log())
    on_hub.forget_log()
    assert regauge("diff", "hf://org/llama", model).startswith("identical")
    second = sum(int(line[2]) for line in on_hub.log())
    assert first > 15e6
    assert second < first / 20
    pieces = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert all(file.stat().st_mode & 0o77 == 0 for file in pieces)
    # A damaged piece is fetched again.
    largest = max(pieces, key=lambda file: file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[1000] ^= 1
    largest.write_bytes(content)
    assert regauge("diff", "hf://org/llama", model).startswith("identical")
    assert largest.read_bytes() != content


def test_the_cache_is_bounded(regauge, on_hub, model, tmp_path, monkeypatch):
    monkeypatch.setenv("REGAUGE_CACHE_SIZE", "10MB")
    assert regauge("diff", "hf://org/llama", model).startswith("identical")
    kept = sum(file.stat().st_size for file in (tmp_path / "cache").rglob("*") if file.is_file())
    assert 0 < kept <= 10e6
    monkeypatch.setenv("REGAUGE_CACHE_SIZE", "0")
    monkeypatch.setenv("REGAUGE_CACHE", str(tmp_path / "none"))
    assert regauge("diff", "hf://org/llama", model).startswith("identical")
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("REGAUGE_CACHE_SIZE", "much")
    assert "REGAUGE_CACHE_SIZE" in error_of(regauge, "inspect", "hf://org/llama")


def test_a_cache_that_cannot_be_written_does_no_harm(regauge, on_hub, model, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGAUGE_CACHE", str(tmp_path / "file"))
    assert regauge("diff", "hf://org/llama", model).startswith("identical")


def test_https_needs_a_certificate_that_is_trusted(regauge, hub, model, monkeypatch):
    address = f"https://localhost:{hub.tls}/plain"
    assert "not trusted" in error_of(regauge, "inspect", address)
    monkeypatch.setenv("SSL_CERT_FILE", str(hub.folder / "certificate.pem"))
    assert regauge("diff", address, model).startswith("identical")
    assert "from https to http" in error_of(regauge, "inspect", f"https://localhost:{hub.tls}/to-http/model.safetensors")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://example.org/model", "only taken for this machine"),
        ("https://user:secret@example.org/model", "user name or a password"),
        ("https:///model", "names no host"),
        ("https://example.org/a model", "characters"),
        ("hf://llama", "expected hf://org/name"),
        ("hf://org/../etc@main", "expected hf://org/name"),
        ("hf://org/name@main/../../x.gguf", "expected hf://org/name"),
    ],
)
def test_addresses_that_are_not_taken(regauge, address, why):
    refused = error_of(regauge, "inspect", address)
    assert why in refused
    assert "secret" not in refused


def test_a_file_that_is_not_there_is_named(regauge, on_hub):
    assert "no such file" in error_of(regauge, "inspect", "hf://org/llama@main/other.gguf")
    shutil.rmtree(on_hub.files / "org" / "empty", ignore_errors=True)
    (on_hub.files / "org" / "empty").mkdir()
    (on_hub.files / "org" / "empty" / "config.json").write_text('{"model_type": "llama"}')
    assert "has none of model.safetensors" in error_of(regauge, "inspect", "hf://org/empty")


def test_shards_are_found_by_their_index(regauge, on_hub, model):
    tensors = safetensors.numpy.load_file(model / "model.safetensors")
    folder = on_hub.files / "org" / "sharded"
    folder.mkdir()
    shutil.copy(model / "config.json", folder)
    names, half = sorted(tensors), len(tensors) // 2
    places = {}
    for number, part in ((1, names[:half]), (2, names[half:])):
        file = f"model-0000{number}-of-00002.safetensors"
        safetensors.numpy.save_file({name: tensors[name] for name in part}, folder / file)
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert regauge("diff", "hf://org/sharded", model).startswith("identical")
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors" in error_of(regauge, "inspect", "hf://org/sharded")


def test_act_writes_what_it_writes_of_the_local_model(regauge, on_hub, model, tmp_path):
    for name, given in (("local", model), ("remote", "hf://org/llama")):
        regauge("act", given, "--random", 3, "-o", tmp_path / name)
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "local" / file).read_bytes() == (tmp_path / "remote" / file).read_bytes()


def sound(handler, _content, _first, part, headers):
    handler.answer(206, headers, part)


def cut_after(count):
    """Connections that end after so many bytes."""

    def fault(handler, _content, _first, part, headers):
        handler.send_response(206)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(part)))
        handler.end_headers()
        handler.wfile.write(part[:count])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.close()

    return fault


def test_a_connection_that_is_cut_is_taken_up_again(regauge, model):
    with misbehaving(model, cut_after(700_000)) as address:
        assert regauge("diff", address, model).startswith("identical")


def test_a_server_that_is_busy_is_asked_again(regauge, model):
    def fault(handler, content, first, part, headers):
        if handler.server.count % 2 == 1:
            return handler.answer(503, {})
        return sound(handler, content, first, part, headers)

    with misbehaving(model, fault) as address:
        assert regauge("diff", address, model).startswith("identical")


def chosen_by_query(validators):
    """Another file of the same length behind ?v=2."""

    def fault(handler, content, first, part, headers):
        if handler.path.endswith("?v=2"):
            part = bytearray(part)
            for at in (len(content) // 2, len(content) - 100):
                if first <= at < first + len(part):
                    part[at - first] ^= 1
        headers = {"Content-Range": headers["Content-Range"], **validators}
        handler.answer(206, headers, bytes(part))

    return fault


DATE = {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}


@pytest.mark.parametrize("validators", [DATE, {"ETag": 'W/"1"'}, {"ETag": '"1"'}], ids=["date", "weak", "strong"])
def test_what_a_query_chooses_is_not_mixed_up(regauge, model, tmp_path, validators):
    gguf = tmp_path / "files" / "m.gguf"
    gguf.parent.mkdir()
    regauge("convert", model, "--to", "gguf", "-o", gguf)
    with misbehaving(gguf.parent, chosen_by_query(validators)) as address:
        first, second, none = (f"{address}/m.gguf{query}" for query in ("?v=1", "?v=2", ""))
        assert regauge("diff", first, none).startswith("identical")
        assert "not the same function" in regauge("diff", first, second, expect=1)
        assert "not the same function" in regauge("diff", second, none, expect=1)


def ignores_ranges(handler, content, _first, _part, headers):
    handler.answer(200, {"ETag": headers["ETag"]}, content)


def another_version_later(handler, content, first, part, headers):
    if handler.server.count > 2:
        headers["ETag"] = '"another"'
    sound(handler, content, first, part, headers)


def another_version_as_a_whole(handler, content, first, part, headers):
    if handler.server.count > 2:
        return handler.answer(200, {"ETag": '"another"'}, content)
    return sound(handler, content, first, part, headers)


def without_end(handler, _content, _first, part, headers):
    handler.send_response(206)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while True:
        handler.wfile.write(part)


def headers_without_end(handler, *_):
    handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\n")
    while True:
        handler.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")


def range_of(text):
    def fault(handler, content, first, part, headers):
        headers["Content-Range"] = text
        sound(handler, content, first, part, headers)

    return fault


def other_length_later(handler, content, first, part, headers):
    if handler.server.count > 2:
        headers["Content-Range"] = headers["Content-Range"].split("/")[0] + f"/{len(content) + 1}"
    sound(handler, content, first, part, headers)


def redirect_to(location):
    return lambda handler, *_: handler.answer(302, {"Location": location})


def encoded(handler, content, first, part, headers):
    headers["Content-Encoding"] = "gzip"
    sound(handler, content, first, part, headers)


def unmarked(handler, content, first, part, headers):
    del headers["ETag"]
    sound(handler, content, first, part, headers)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param(ignores_ranges, "ignores range requests", id="ignores ranges"),
        pytest.param(another_version_later, "was changed while it was read", id="another ETag"),
        pytest.param(another_version_as_a_whole, "was changed while it was read", id="If-Range"),
        pytest.param(without_end, "more bytes than were asked for", id="endless body"),
        pytest.param(headers_without_end, "[remote]", id="endless headers"),
        pytest.param(range_of("bytes 0-65535/99999999999999999999999"), "answers with", id="overflow"),
        pytest.param(range_of("bytes 0-65535/-5"), "answers with", id="negative"),
        pytest.param(range_of("bytes 5-65540/20000000"), "answers with", id="another range"),
        pytest.param(range_of("bytes 0-65535/9223372036854775807"), "answers with", id="largest"),
        pytest.param(range_of(""), "answers with", id="no range"),
        pytest.param(other_length_later, "answers with", id="another length"),
        pytest.param(redirect_to("/model.safetensors"), "redirects more than 10 times", id="redirect loop"),
        pytest.param(redirect_to("file:///etc/passwd"), "only https://", id="redirect to a file"),
        pytest.param(redirect_to("http://192.0.2.1/model"), "only taken for this machine", id="redirect to http"),
        pytest.param(redirect_to(""), "redirects to nowhere", id="redirect to nowhere"),
        pytest.param(encoded, "encoded (gzip)", id="encoded"),
        pytest.param(unmarked, "neither an ETag nor a date", id="no ETag"),
        pytest.param(cut_after(0), "tried 4 times", id="no bytes"),
        pytest.param(lambda handler, *_: handler.answer(500, {}), "answers 500", id="broken"),
    ],
)
def test_a_server_that_misbehaves_is_refused(regauge, model, fault, why):
    with misbehaving(model, fault) as address:
        assert why in error_of(regauge, "diff", address, model)


def test_a_server_that_does_not_answer_is_named(regauge):
    assert "127.0.0.1:9" in error_of(regauge, "inspect", "http://127.0.0.1:9/model")
