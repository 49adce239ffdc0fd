"""Zips that visitors upload: what is read of them, and every kind that is refused."""

import io
import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from foreign import Golden, zipped

from explorer import uploads
from explorer.library import LoadedModel, StoredWeights
from explorer.problems import InputProblem
from explorer.sandbox import unpacking
from explorer.uploads import allowed, open_zip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return Golden.load("llama").write(tmp_path_factory.mktemp("zipped") / "mine", "own")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Iterator[Path]:
    """Where temporary folders are made; nothing is left there, whatever happened."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.glob("headlight-*")) == []


def files_of(folder: Path, prefix: str = "") -> dict[str, bytes]:
    return {f"{prefix}{path.name}": path.read_bytes() for path in folder.iterdir()}


def refusal(file: io.BytesIO, name: str = "a.zip") -> InputProblem:
    with pytest.raises(InputProblem) as caught:
        open_zip(name, file)
    return caught.value


@pytest.mark.parametrize("prefix", ["", "mine/", "some/where/"])
def test_a_zip_of_a_model_opens_and_nothing_stays_on_disk(folder, prefix):
    loaded = open_zip("My model (1).zip", zipped(files_of(folder, prefix)))
    assert loaded.name == "My-model-1"
    assert loaded.config.n_layers > 0
    assert not loaded.folder.exists()
    assert loaded.stored == StoredWeights.at(folder), "what it took on disk is known still"
    assert loaded.stored.n_bytes == (folder / "model.safetensors").stat().st_size
    assert loaded.tokenizer.encode("We went")


def test_no_name_in_a_zip_becomes_a_path(folder, place):
    evil = ("../evil", "/tmp/headlight-evil", "mine/../../evil", "..\\evil", "mine/evil.py")
    written: list[str] = []
    files = files_of(folder, "mine/") | {name: b"evil" for name in evil}
    original = uploads.open_model

    def watched(into: Path) -> LoadedModel:
        written.extend(str(each.relative_to(place)) for each in place.rglob("*") if each.is_file())
        return original(into)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uploads, "open_model", watched)
        assert open_zip("..zip/../a.zip", zipped(files)).name == "a"
    assert {Path(each).name for each in written} <= unpacking.FILES
    assert all(Path(each).parent.name == "a" for each in written)
    assert not Path("/tmp/headlight-evil").exists()


def test_files_beside_the_outermost_config_are_read_and_an_adapter_alone_names_its_base(folder):
    files = files_of(folder) | {"generation_config.json": b'{"eos_token_id": [2, 1]}'}
    assert not open_zip("a.zip", zipped(files_of(folder))).marks.ends(1)
    assert open_zip("a.zip", zipped(files)).marks.ends(1)
    other = {f"mine/old/{name}": b"not this" for name in ("config.json", "model.safetensors")}
    assert open_zip("a.zip", zipped(other | files_of(folder, "mine/"))).name == "a"
    adapter = {"adapter_model.safetensors": b"", "adapter_config.json": b"[]"}
    said = json.dumps({"base_model_name_or_path": "org/*base*"}).encode()
    config = {"config.json": (folder / "config.json").read_bytes()}
    for files, base in (
        (adapter, "?"),
        (
            {f"mine/{k}": v for k, v in adapter.items()} | {"mine/adapter_config.json": said},
            "org/*base*",
        ),
        (config | adapter | {"adapter_config.json": said}, "org/*base*"),
    ):
        found = refusal(zipped(files))
        assert (found.key, found.values["base"]) == ("upload_adapter", base)
    assert refusal(zipped({"adapter_config.json": b"{"})).key == "upload_no_zip"


def test_too_large_or_damaged_zips_are_refused(folder, monkeypatch):
    whole = zipped(files_of(folder)).getvalue()
    broken = bytearray(whole)
    broken[len(broken) // 3] ^= 255
    none = (b"", b"PK", b"not a zip" * 100, b"PK\x05\x06" + b"\0" * 17)
    before = whole[20:]  # a file before the beginning
    for data in (*none, bytes(broken), bytes(broken[: len(broken) // 2]), before):
        assert refusal(io.BytesIO(data)).key == "upload_no_zip", data[:9]
    nameless = whole.replace(b"config.json", b"\0onfig.json")
    assert refusal(io.BytesIO(nameless)).key in ("upload_no_zip", "upload_nothing")
    file = zipped(files_of(folder))
    monkeypatch.setattr(uploads, "MOST_BYTES", 1000)
    found = refusal(file)
    assert (found.key, found.values["limit"]) == ("upload_too_large", 1000)
    assert found.values["size"] == len(file.getvalue())


def test_a_bomb_is_stopped_while_it_unpacks(folder, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_UNPACKED", 3_000_000)
    bomb = files_of(folder) | {"model.safetensors": b"\0" * 40_000_000}
    file = zipped(bomb)
    assert len(file.getvalue()) < 200_000
    assert refusal(file).key == "upload_bomb"
    # One that says of itself that it is small: 100 bytes unpacked, in the list and at the file.
    data = file.getvalue().replace(struct.pack("<L", 40_000_000), struct.pack("<L", 100))
    assert refusal(io.BytesIO(data)).key in ("upload_bomb", "upload_no_zip")


def test_bad_zips_are_refused(folder):
    config = {"config.json": (folder / "config.json").read_bytes()}
    for files in ({}, {"readme.txt": b"hello"}, config):
        assert refusal(zipped(files)).key == "upload_nothing"
    data = bytearray(zipped(files_of(folder)).getvalue())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # flags, here and in the list
        start = data.find(signature)
        while start >= 0:
            data[start + at] |= 1
            start = data.find(signature, start + 4)
    assert refusal(io.BytesIO(bytes(data))).key == "upload_encrypted"
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, 2_000_000, 0, 0)
    assert refusal(io.BytesIO(b"\0" * 3_000_000 + end)).key == "upload_bomb"
    large = b"PK\x06\x07" + b"\0" * 16
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 50, 0, 0)
    assert refusal(io.BytesIO(b"\0" * 100 + large + end)).key == "upload_bomb"


def test_a_pickle_or_a_model_that_does_not_open_is_refused_by_its_name(folder):
    files = files_of(folder)
    files["pytorch_model.bin"] = files.pop("model.safetensors")
    assert refusal(zipped(files)).key == "upload_pickle"
    # Beside safetensors it is left alone, as in many folders.
    both = files_of(folder) | {"pytorch_model.bin": b"evil"}
    assert open_zip("a.zip", zipped(both)).name == "a"
    files = files_of(folder) | {"config.json": b'{"model_type": "nobody"}'}
    found = refusal(zipped(files), "theirs.zip")
    assert found.key == "broken_model"
    assert found.values["name"] == "theirs"
    assert "nobody" in str(found.values["reason"])
    assert "headlight-" not in str(found.values["reason"])


def test_uploads_are_off_until_the_owner_allows_them(monkeypatch):
    monkeypatch.delenv(uploads.VARIABLE, raising=False)
    assert not allowed()
    monkeypatch.setenv(uploads.VARIABLE, "1")
    assert allowed()
    monkeypatch.setenv(uploads.VARIABLE, "yes")
    with pytest.raises(ValueError, match="HEADLIGHT_UPLOADS must be 1 or 0, not 'yes'"):
        allowed()
