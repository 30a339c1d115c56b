"""Work in parts: joined, they give the answer and the bytes of one run; what does not fit together is refused by name."""

import json
import os
import resource
import shutil
import subprocess
import time

import pytest
import safetensors.torch
import torch
import transformers

FORMATS = ("safetensors", "gguf")
NUMBERS = (1, 3, 40)  # of parts; 40 are more than there are layers, or files
PROGRAM = os.environ.get("REGAUGE", "regauge")


def run(*arguments, expect=(0,), **more):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, **more)
    assert result.returncode in expect, result.stdout + result.stderr
    return result


def edit(folder, change):
    """Changes one tensor of the first shard."""
    shard = sorted(folder.glob("*.safetensors"))[0]
    tensors = safetensors.torch.load_file(shard)
    name = sorted(name for name, tensor in tensors.items() if tensor.ndim == 2)[-1]
    tensors[name] = change(tensors[name])
    safetensors.torch.save_file(tensors, shard, metadata={"format": "pt"})


class Models:
    """A model, and what became of it."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=7, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=48,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
        source = folder / "source"
        model.save_pretrained(source, max_shard_size="60KB")
        assert len(list(source.glob("*.safetensors"))) > 3
        shutil.copytree(source, folder / "source-spoilt")
        edit(folder / "source-spoilt", lambda tensor: 1.5 * tensor)
        run("fold", source, "-o", folder / "source-rounded", "--dtype", "bf16", "--gains-only")
        run("act", source, "-o", folder / "source-moved", "--random", 1)
        shutil.copytree(source, folder / "source-copy")
        model.apply(lambda module: torch.nn.init.normal_(module.weight) if hasattr(module, "weight") else None)
        model.save_pretrained(folder / "source-other", max_shard_size="60KB")
        self.original = self.of_kind("source")

    def of_kind(self, name):
        if self.kind == "safetensors":
            return self.folder / name
        out = self.folder / f"{name}.gguf"
        if not out.exists():
            run("convert", self.folder / name, "--to", "gguf", "-o", out)
        return out

    def __getitem__(self, name):
        return self.of_kind(f"source-{name}")


@pytest.fixture(scope="module", params=FORMATS)
def models(request, tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"), request.param)


def make_parts(number, folder, *arguments, after=(), only=None):
    folder.mkdir(exist_ok=True)
    parts = []
    for part in only or range(1, number + 1):
        out = folder / f"part-{part}"
        later = ["--after", *after] if after else []
        run(*arguments, "--part", f"{part}/{number}", "-o", out, *later)
        parts.append(out)
    return parts


PAIRS = ("copy", "rounded", "spoilt", "moved", "other")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("pair", PAIRS)
def test_diff_is_that_of_one_run(models, tmp_path, pair, number):
    a, b = models.original, models[pair]
    whole = run("diff", a, b, "--json", "--all", expect=(0, 1))
    parts = make_parts(number, tmp_path / "parts", "diff", a, b)
    joined = run("diff", "--join", *parts, "--json", "--all", expect=(0, 1))
    assert joined.stdout == whole.stdout
    assert joined.returncode == whole.returncode
    # Every tensor was compared by one part.
    loops = [json.loads(part.read_text())["loops"]["compare in place"] for part in parts]
    units = sorted(int(unit) for loop in loops for unit in loop["results"])
    assert units == list(range(loops[0]["units"]))


@pytest.mark.parametrize("number", (1, 3))
@pytest.mark.parametrize("pair", ("copy", "moved"))
def test_rounds_of_parts_leave_nothing_to_the_join(models, tmp_path, pair, number):
    """Each round goes on where the last one ended, up to one that finds nothing to do."""
    a, b = models.original, models[pair]
    made, loops = [], []
    for round in range(9):
        parts = make_parts(number, tmp_path / str(round), "diff", a, b, after=made)
        now = [set(json.loads(part.read_text())["loops"]) for part in parts]
        assert all(some == now[0] for some in now)
        if not now[0]:
            break
        loops.append(now[0])
        made += parts
    rounds = {"copy": ["compare in place"], "moved": ["compare in place", "recognise layers", "compare layers"]}
    assert loops == [{name} for name in rounds[pair]]
    assert run("diff", "--join", *made, "--json", "--all").stdout == run("diff", a, b, "--json", "--all").stdout


def test_certificates_are_those_of_one_run(models, tmp_path):
    a, b = models.original, models["moved"]
    proofs = [tmp_path / "whole.safetensors", tmp_path / "joined.safetensors"]
    run("diff", a, b, "--certificate", proofs[0])
    first = make_parts(3, tmp_path / "first", "diff", a, b)
    second = make_parts(3, tmp_path / "second", "diff", a, b, after=first)
    run("diff", "--join", *first, *second, "--certificate", proofs[1])
    assert proofs[0].read_bytes() == proofs[1].read_bytes()


@pytest.fixture(scope="module")
def proof(models):
    path = models.folder / f"proof-{models.kind}.safetensors"
    if not path.exists():
        run("diff", models.original, models["moved"], "--certificate", path)
    return path


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("pair", ("moved", "spoilt"))
def test_verify_is_that_of_one_run(models, proof, tmp_path, pair, number):
    """In one round: files are hashed by some parts, and layers compared."""
    asked = ["verify", models.original, models[pair], proof]
    whole = run(*asked, "--json", expect=(0, 1))
    assert json.loads(whole.stdout)["holds"] == (pair == "moved")
    parts = make_parts(number, tmp_path / "parts", *asked)
    joined = run("verify", "--join", *parts, "--json", expect=(0, 1))
    assert (joined.stdout, joined.returncode) == (whole.stdout, whole.returncode)
    assert set(json.loads(parts[0].read_text())["loops"]) == {"hash files", "hash files (2)", "compare layers"}


def files_of(path):
    files = [path] if path.is_file() else sorted(path.iterdir())
    return [file.read_bytes() if path.is_file() else (file.name, file.read_bytes()) for file in files]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("how", ("random", "element"))
def test_act_writes_the_bytes_of_one_run(models, tmp_path, number, how):
    element = tmp_path / "element.safetensors"
    whole = tmp_path / ("whole.gguf" if models.kind == "gguf" else "whole")
    joined = whole.with_stem("joined")
    run("act", models.original, "--random", 5, "--dtype", "bf16", "-o", whole, "--save-element", element)
    which = ["--random", 5] if how == "random" else ["--element", element]
    parts = make_parts(number, tmp_path / "parts", "act", models.original, *which, "--dtype", "bf16")
    shards = [shard for part in parts if (part / "shards").exists() for shard in (part / "shards").iterdir()]
    assert len(shards) == (1 if models.kind == "gguf" else len(list(whole.glob("*.safetensors"))))
    run("act", "--join", *parts, "-o", joined)
    assert files_of(joined) == files_of(whole)


# What does not fit together


def refused(*arguments, **more):
    return run(*arguments, expect=(2,), **more).stderr


def test_missing_parts_are_named(models, tmp_path):
    parts = make_parts(5, tmp_path / "parts", "diff", models.original, models["copy"])
    assert "parts 2, 4 of 5 are missing" in refused("diff", "--join", parts[0], parts[2], parts[4])
    # Made again elsewhere, they fit.
    again = make_parts(5, tmp_path / "again", "diff", models.original, models["copy"], only=(2, 4))
    run("diff", "--join", parts[0], parts[2], parts[4], *again)


def test_parts_of_another_model_are_refused(models, tmp_path):
    """Also of one that differs in its numbers alone."""
    copy, other = models["copy"], models["other"]
    parts = make_parts(2, tmp_path / "parts", "diff", models.original, copy, only=(1,))
    parts += make_parts(2, tmp_path / "other", "diff", models.original, other, only=(2,))
    assert f"{parts[1]} does not belong here: it was made of another B" in refused("diff", "--join", *parts)
    assert "another A" in refused("diff", other, copy, "--join", parts[0])
    act = make_parts(2, tmp_path / "act", "act", models.original, "--random", 1, only=(1,))
    act += make_parts(2, tmp_path / "act-other", "act", other, "--random", 1, only=(2,))
    assert "another model" in refused("act", "--join", *act, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_changed_in_between_is_refused(models, tmp_path):
    if models.kind == "gguf":
        pytest.skip("the files are read alike; `edit` writes safetensors")
    changing = tmp_path / "changing"
    shutil.copytree(models["copy"], changing)
    parts = make_parts(2, tmp_path / "parts", "diff", models.original, changing, only=(1,))
    edit(changing, lambda tensor: 1.01 * tensor)
    parts += make_parts(2, tmp_path / "parts", "diff", models.original, changing, only=(2,))
    assert "another B" in refused("diff", "--join", *parts)


def test_parts_of_other_requests_are_refused(models, tmp_path, proof):
    a, b = models.original, models["moved"]
    half = make_parts(2, tmp_path / "half", "diff", a, b)
    third = make_parts(3, tmp_path / "third", "diff", a, b)
    assert "one of 3 parts" in refused("diff", "--join", half[0], third[1])
    assert "one of 2 parts" in refused("diff", a, b, "--part", "1/3", "--after", *half, "-o", tmp_path / "later")
    verified = make_parts(2, tmp_path / "verified", "verify", a, b, proof)
    assert "its verb" in refused("diff", "--join", half[0], verified[1])
    seeds = [make_parts(2, tmp_path / f"seed-{seed}", "act", a, "--random", seed)[seed] for seed in (0, 1)]
    assert "its options" in refused("act", "--join", *seeds, "-o", tmp_path / "out")


def rewritten(part, out, change):
    """A part that says something else, with its own hash put right."""
    import hashlib

    record = json.loads(part.read_text())
    change(record)
    record.pop("sha256")
    text = json.dumps(record, separators=(",", ":"), sort_keys=True)
    record["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    out.write_text(json.dumps(record))
    return out


def test_parts_of_another_version_are_refused(models, tmp_path):
    [part] = make_parts(1, tmp_path / "parts", "diff", models.original, models["copy"])
    same = rewritten(part, tmp_path / "same", lambda record: None)
    run("diff", "--join", same)

    def older(record):
        record["asked"]["version"] = "0.0.9"

    message = refused("diff", "--join", rewritten(part, tmp_path / "older", older))
    assert 'its version is "0.0.9", and here it is' in message

    def newer(record):
        record["regauge part"] = 2

    assert "format 2 of parts" in refused("diff", "--join", rewritten(part, tmp_path / "newer", newer))


def test_damaged_parts_are_refused(models, tmp_path):
    [part] = make_parts(1, tmp_path / "parts", "diff", models.original, models["copy"])
    text = part.read_text()
    for name, broken in {
        "short": text[: len(text) // 2],
        "empty": "",
        "other": json.dumps({"a": 1}),
        "bits": text.replace('"equal"', '"hidden"', 1),
        "units": text.replace('"units": ', '"units": 9', 1),
    }.items():
        path = tmp_path / name
        path.write_text(broken)
        assert name in refused("diff", "--join", path), name

    def damage(change):
        return refused("diff", "--join", rewritten(part, tmp_path / "damaged", change))

    loop = "compare in place"
    assert "no part has unit 3" in damage(lambda record: record["loops"][loop]["results"].pop("3"))
    assert "is damaged" in damage(lambda record: record["loops"][loop]["results"]["3"].pop("size"))
    assert "has no unit 999" in damage(lambda record: record["loops"][loop]["results"].update({"999": {}}))
    assert "units there" in damage(lambda record: record["loops"][loop].update(units=999))
    assert "part 3 of 1" in damage(lambda record: record.update(part=3))


def test_a_part_made_twice(models, tmp_path):
    a, b = models.original, models["copy"]
    first, second = make_parts(2, tmp_path / "parts", "diff", a, b)
    # Into the same file it is the same file, into another one part.
    before = second.stat()
    make_parts(2, tmp_path / "parts", "diff", a, b, only=(2,))
    assert second.stat().st_mtime_ns == before.st_mtime_ns
    [again] = make_parts(2, tmp_path / "again", "diff", a, b, only=(2,))
    run("diff", "--join", first, second, again)

    def lies(record):
        results = record["loops"]["compare in place"]["results"]
        next(iter(results.values()))["relation"] = "differs"

    liar = rewritten(again, tmp_path / "liar", lies)
    assert "was done twice, and the results differ" in refused("diff", "--join", first, second, liar)
    assert "is there already" in refused("diff", a, b, "--part", "1/2", "-o", second)


def test_a_shard_that_changed_is_refused(models, tmp_path):
    parts = make_parts(2, tmp_path / "parts", "act", models.original, "--random", 1)
    shard = next(shard for part in parts for shard in part.glob("shards/*"))
    bytes = bytearray(shard.read_bytes())
    bytes[-1] ^= 1
    shard.write_bytes(bytes)
    assert f"{shard.name} is not what its part wrote" in refused("act", "--join", *parts, "-o", tmp_path / "out")
    shutil.rmtree(shard.parent.parent)
    assert "is missing" in refused("act", "--join", *(p for p in parts if p.exists()), "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Parts that are broken off


def big_model(folder):
    """Large enough that a part is killed while it is at work."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=2000, hidden_size=512, num_hidden_layers=12, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=1376,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="40MB")
    return folder


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    return big_model(tmp_path_factory.mktemp("big") / "model")


def killed(out, *arguments):
    """Starts a part, and kills it -9 while it writes."""
    for _ in range(5):
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stderr=subprocess.DEVNULL)
        while process.poll() is None and not any(out.parent.glob(f".{out.name}.partial-*/*")):
            time.sleep(0.001)
        process.kill()
        process.wait()
        if not out.exists():
            return
        shutil.rmtree(out)
    pytest.fail("the part was made too soon")


def test_a_part_that_was_killed_is_made_again(big, tmp_path):
    whole, joined = tmp_path / "whole", tmp_path / "joined"
    run("act", big, "--random", 1, "-o", whole)
    asked = ["act", big, "--random", 1]
    parts = make_parts(2, tmp_path / "parts", *asked, only=(1,))
    second = tmp_path / "parts" / "part-2"
    killed(second, *asked, "--part", "2/2", "-o", second)
    assert any(second.parent.glob(".part-2.partial-*"))  # what it left
    assert "part 2 of 2 is missing" in refused("act", "--join", *parts, "-o", joined)
    parts += make_parts(2, tmp_path / "parts", *asked, only=(2,))
    run("act", "--join", *parts, "-o", joined)
    assert files_of(joined) == files_of(whole)


def small_disk(bytes):
    """What a process may write, as a full disk would have it."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, bytes))


def test_a_full_disk(big, models, tmp_path):
    out = tmp_path / "part"
    message = refused("act", big, "--random", 1, "--part", "1/2", "-o", out, preexec_fn=small_disk(1 << 20))
    assert "cannot" in message
    assert list(tmp_path.iterdir()) == []
    asked = ["diff", models.original, models["spoilt"], "--part", "1/2", "-o", out]
    refused(*asked, preexec_fn=small_disk(100))
    assert list(tmp_path.iterdir()) == []
    run(*asked)


DISK = """mount -t tmpfs -o "size=$1" tmpfs "$2" || exit 77
disk=$2; shift 2; "$@"; code=$?
echo "left: $(ls -A "$disk")" >&2
exit $code"""


def on_a_disk_of(size, disk, *arguments):
    """What the program says where `disk` is a file system of its own, in memory, which goes with the program."""
    disk.mkdir(exist_ok=True)
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", DISK, "sh", size, disk, PROGRAM]
    result = subprocess.run([*own, *map(str, arguments)], capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1, 2, 3):
        pytest.skip(f"this system lets nobody mount: {result.stderr}")
    return result


def test_a_file_system_that_is_full(big, models, tmp_path):
    """Parts and joins of every verb: an error that says so, nothing half written, and the parts are still good."""
    disk = tmp_path / "disk"

    def refused_there(size, *arguments):
        result = on_a_disk_of(size, disk, *arguments)
        assert result.returncode == 2, result.stderr
        assert "No space left on device" in result.stderr
        assert result.stderr.endswith("left: \n")  # nothing

    act = ["act", big, "--random", 1]
    refused_there("1m", *act, "--part", "1/2", "-o", disk / "part")
    parts = make_parts(2, tmp_path / "act", *act)
    before = [files_of(part / "shards") for part in parts]
    refused_there("60m", "act", "--join", *parts, "-o", disk / "out")
    assert [files_of(part / "shards") for part in parts] == before
    joined = on_a_disk_of("300m", disk, "act", "--join", *parts, "-o", disk / "out")
    assert joined.returncode == 0 and joined.stderr.endswith("left: out\n")

    proof = tmp_path / "proof.safetensors"
    run("diff", models.original, models["moved"], "--certificate", proof)
    for name, asked in {
        "diff": ["diff", models.original, models["moved"]],
        "verify": ["verify", models.original, models["moved"], proof],
    }.items():
        refused_there("4k,nr_inodes=1", *asked, "--part", "1/2", "-o", disk / "part")
        parts = make_parts(2, tmp_path / name, *asked)
        assert on_a_disk_of("4k", disk, name, "--join", *parts).returncode == 0
    parts = sorted((tmp_path / "diff").iterdir())
    refused_there("16k", "diff", "--join", *parts, "--certificate", disk / "proof.safetensors")


def test_a_wide_model(tmp_path):
    """It is seen through random directions, which follow from the hashes of all tensors: parts hash in the round in
    which they recognise layers."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=1024, num_hidden_layers=5, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=2304,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    assert model.num_parameters() * config.hidden_size > 5e10
    a, b = tmp_path / "a", tmp_path / "b"
    model.save_pretrained(a)
    run("act", a, "--random", 1, "-o", b)
    whole = run("diff", a, b, "--json", "--all", expect=(0, 1)).stdout
    assert json.loads(whole)["statement"] == "other-coordinates"
    first = make_parts(2, tmp_path / "1", "diff", a, b)
    second = make_parts(2, tmp_path / "2", "diff", a, b, after=[tmp_path / "1"])
    assert set(json.loads(second[0].read_text())["loops"]) == {"hash tensors", "recognise layers"}
    third = make_parts(2, tmp_path / "3", "diff", a, b, after=[tmp_path / "1", tmp_path / "2"])
    assert set(json.loads(third[0].read_text())["loops"]) == {"compare layers"}
    assert run("diff", "--join", *first, *second, *third, "--json", "--all").stdout == whole
    assert run("diff", "--join", tmp_path / "1", "--json", "--all").stdout == whole
