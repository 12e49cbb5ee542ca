"""Fetching checkpoints from a hub on loopback, through the real hub client in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub", reason="the hub's client is not installed")

SRC = Path(__file__).parents[1] / "src"
REVISION = "5" * 40
FILES = {"config.json": b'{"model_type": "x"}', "model.safetensors": b"weights" * 1000, "evil.bin": b"pickle"}


class Hub(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(FILES)
        self.fetched: list[str] = []
        self.told = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


class Handler(BaseHTTPRequestHandler):
    """The few answers of a hub that its client asks for."""

    server: Hub

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path.startswith("/api/models/"):
            self._answer(json.dumps(self._info()).encode(), {"Content-Type": "application/json"})
            return
        name = path.split(f"/resolve/{REVISION}/")[-1]
        if name not in self.server.files:
            self.send_error(404)
            return
        data = self.server.files[name]
        if self.command == "GET":
            self.server.fetched.append(name)
        digest = hashlib.sha256(data).hexdigest()
        self._answer(data, {"X-Repo-Commit": REVISION, "ETag": f'"{digest}"', "X-Linked-Size": str(len(data))})

    do_HEAD = do_GET

    def _info(self) -> dict[str, object]:
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"sha256": self.server.told[name], "size": len(data), "pointerSize": 1},
            }
            for name, data in self.server.files.items()
        ]
        return {
            "id": self.path.removeprefix("/api/models/"),
            "sha": REVISION,
            "siblings": siblings,
            "cardData": {"license": "apache-2.0"},
        }

    def _answer(self, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def fetch(hub: Hub, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        key: value for key, value in os.environ.items() if key not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    }
    environment |= {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(folder / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": str(SRC),
        **variables,
    }
    command = [sys.executable, "-m", "r1_router", "checkpoints", "--folder", str(folder), *words]
    return subprocess.run(command, env=environment, input="n\n", capture_output=True, text=True, timeout=120)


def test_size_and_licence_come_first_and_nothing_is_fetched_unasked(hub: Hub, tmp_path: Path) -> None:
    result = fetch(hub, tmp_path, "MoRE-3B")
    assert "apache-2.0" in result.stdout and "GB" in result.stdout and REVISION[:10] in result.stdout
    assert hub.fetched == [] and result.returncode == 1


def test_fetched_once_without_pickles_and_noted(hub: Hub, tmp_path: Path) -> None:
    result = fetch(hub, tmp_path, "MoRE-3B", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "MoRE-3B" / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert not (tmp_path / "MoRE-3B" / "evil.bin").exists()
    assert json.loads((tmp_path / "MoRE-3B" / "downloaded.json").read_text())["revision"] == REVISION
    fetched = len(hub.fetched)
    assert fetch(hub, tmp_path, "MoRE-3B", "--yes").returncode == 0
    assert len(hub.fetched) == fetched


def test_the_retrievers_come_as_one_group_without_optimizers(hub: Hub, tmp_path: Path) -> None:
    extra = ["pytorch_model.bin", "optimizer.bin", "1_Pooling/config.json", "onnx/config.json", "vocab.txt"]
    extra += ["checkpoint/CLIP_SF/Large/Instruct/InBatch/clip_sf_large.pth", "checkpoint/BLIP_FF/blip_ff_large.pth"]
    hub.files |= {name: name.encode() for name in extra}
    del hub.files["model.safetensors"]
    hub.told |= {name: hashlib.sha256(data).hexdigest() for name, data in hub.files.items()}
    result = fetch(hub, tmp_path, "retrievers", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("apache-2.0") == 5 and "BAAI/bge-m3" in result.stdout
    fetched = {
        name: {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("bge-m3", "clip-sf-large", "clip-vit-large-patch14", "table-retriever", "bert-large-uncased")
    }
    fetched = {name: {file for file in files if not file.startswith(".cache")} for name, files in fetched.items()}
    tokenizer, note = {"config.json", "vocab.txt"}, {"downloaded.json"}
    assert fetched == {
        "bge-m3": tokenizer | note | {"pytorch_model.bin", "1_Pooling/config.json"},
        "clip-sf-large": note | {"checkpoint/CLIP_SF/Large/Instruct/InBatch/clip_sf_large.pth"},
        "clip-vit-large-patch14": tokenizer | note,
        "table-retriever": note | {"pytorch_model.bin"},
        "bert-large-uncased": tokenizer | note,
    }


def test_a_pickle_is_left_where_its_safe_twin_is(hub: Hub, tmp_path: Path) -> None:
    hub.files["pytorch_model.bin"] = hub.files["evil.bin"]
    hub.told["pytorch_model.bin"] = hub.told["evil.bin"]
    assert fetch(hub, tmp_path, "table-retriever", "--yes").returncode == 0
    assert (tmp_path / "table-retriever" / "model.safetensors").exists()
    assert not (tmp_path / "table-retriever" / "pytorch_model.bin").exists()
    hub.files = {"README.md": b"moved"}
    hub.told |= {"README.md": "0" * 64}
    gone = fetch(hub, tmp_path / "other", "clip-sf-large", "--yes")
    assert gone.returncode == 1 and "has none of" in gone.stdout + gone.stderr


def test_wrong_bytes_are_removed(hub: Hub, tmp_path: Path) -> None:
    hub.told["model.safetensors"] = "0" * 64
    result = fetch(hub, tmp_path, "MoRE-3B", "--yes")
    assert result.returncode == 1 and "wrong checksum" in result.stdout + result.stderr
    assert not (tmp_path / "MoRE-3B" / "model.safetensors").exists()


def test_offline_and_unknown_names_say_what_to_do(hub: Hub, tmp_path: Path) -> None:
    offline = fetch(hub, tmp_path, "MoRE-3B", "--yes", HF_HUB_OFFLINE="1")
    assert offline.returncode == 1 and "HF_HUB_OFFLINE" in offline.stdout + offline.stderr
    unknown = fetch(hub, tmp_path, "MoRE", "--yes")
    assert unknown.returncode == 1 and "MoRE-3B" in unknown.stdout + unknown.stderr
