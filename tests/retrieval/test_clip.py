"""CLIP: OpenAI's layout brought over name by name and number by number, and score fusion as M-BEIR has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from openai_clip import LARGE, TINY, OpenAIClip, ids_of, save_base, save_tokenizer, tiny_clip, transformers_config
from PIL import Image
from retrieval_worlds import draw_flag
from safetensors.torch import save_file
from torch import nn
from transformers import CLIPModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from r1_router.errors import ConfigError, DataError
from r1_router.retrieval.clip_encoder import Asking, ClipEncoder
from r1_router.retrieval.clip_keys import to_transformers
from r1_router.retrieval.clip_model import DEVIATION, MEAN, load_clip, middle_square
from r1_router.retrieval.devices import SpreadEncoder
from r1_router.retrieval.instructions import read_instructions, sentence
from r1_router.types import Query

TEXTS = ["the flag of alpha.", "a much longer text about beta and gamma, is it?", "no!"]


class Configuration:
    """What a training state may hold beside its tensors: of a class that nobody has when the file is read."""

    def __init__(self) -> None:
        self.lr, self.nested = 1e-5, {"epochs": [1, 2]}


class Trap:
    """Writes a file if a pickle of it is really loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_base(tmp_path_factory.mktemp("base")))


@pytest.fixture(scope="module")
def uniir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny CLIP as UniIR saves its own."""
    path = tmp_path_factory.mktemp("uniir") / "clip_sf_large.pth"
    state = {f"clip_model.{key}": value for key, value in tiny_clip().state_dict().items()}
    torch.save({"model": state, "optimizer": {"step": 3}, "config": Configuration(), "epoch": 20}, path)
    return path


@pytest.fixture(scope="module")
def clip(uniir: Path, base: str) -> ClipEncoder:
    return ClipEncoder(str(uniir), base, asking=Asking(candidate="image,text"))


@pytest.fixture(scope="module")
def flag(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("flag") / "flag.png"
    draw_flag(1).save(path)
    return str(path)


def pixels_of(path: str) -> torch.Tensor:
    """By the library's own transform."""
    processor = CLIPImageProcessorPil(size={"shortest_edge": TINY["size"]}, crop_size=TINY["size"])
    return processor(Image.open(path), return_tensors="pt")["pixel_values"]


def unit(rows: torch.Tensor) -> np.ndarray[Any, Any]:
    return nn.functional.normalize(rows, dim=-1).numpy()


def test_every_name_and_shape_of_vit_l_14_is_brought_over() -> None:
    with torch.device("meta"):
        published, ours = OpenAIClip(LARGE).state_dict(), CLIPModel(transformers_config(LARGE)).state_dict()
    assert sum(value.numel() for value in published.values()) == 427_616_513  # as published
    brought = to_transformers(published)
    assert {key: value.shape for key, value in brought.items()} == {key: value.shape for key, value in ours.items()}


def test_uniirs_checkpoint_gives_openais_numbers(clip: ClipEncoder, flag: str) -> None:
    reference = tiny_clip()
    with torch.inference_mode():
        texts = torch.cat([reference.encode_text(ids_of(sentence(text))) for text in TEXTS])
        image = reference.encode_image(pixels_of(flag))
    np.testing.assert_allclose(clip.encode([Query(text) for text in TEXTS]), unit(texts), atol=1e-5)
    np.testing.assert_allclose(clip.encode([Query("", flag)]), unit(image), atol=1e-5)
    both = clip.encode_passages([Query(text, flag) for text in TEXTS])
    np.testing.assert_allclose(both, unit(texts + image), atol=1e-5)


def test_a_folder_of_the_checkpoint_and_a_bare_state_dict_are_read_too(uniir: Path, base: str, tmp_path: Path) -> None:
    save_file({key: value.contiguous() for key, value in tiny_clip().state_dict().items()}, tmp_path / "c.safetensors")
    wanted = load_clip(str(uniir), base).model.state_dict()
    for model in (uniir.parent, tmp_path, tmp_path / "c.safetensors"):
        found = load_clip(str(model), base).model.state_dict()
        assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_nothing_in_a_checkpoint_is_run(base: str, tmp_path: Path) -> None:
    state = {f"clip_model.{key}": value for key, value in tiny_clip().state_dict().items()}
    torch.save({"model": state, "config": Trap(tmp_path / "sprung")}, tmp_path / "trap.pth")
    load_clip(str(tmp_path / "trap.pth"), base)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("quick", [True, False])
def test_an_open_clip_folder_tells_its_own_activation(quick: bool, base: str, tmp_path: Path) -> None:
    open_clip = pytest.importorskip("open_clip.model", reason="open-clip is not installed")
    text = {"context_length": 77, "vocab_size": 84, "width": 64, "heads": 2, "layers": 1}
    vision = {"image_size": 32, "layers": 2, "width": 96, "head_width": 48, "patch_size": 8}
    config = {"embed_dim": 24, "quick_gelu": quick, "text_cfg": text, "vision_cfg": vision}
    torch.manual_seed(1)
    model = open_clip.CLIP(24, dict(vision), dict(text), quick_gelu=quick).eval()
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {"mean": MEAN}}))
    save_file(
        {key: value.contiguous() for key, value in model.state_dict().items()}, tmp_path / "open_clip_model.safetensors"
    )
    save_tokenizer(tmp_path)
    ours, pixels = load_clip(str(tmp_path), base).model, torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        seen = ours.get_image_features(pixel_values=pixels).pooler_output
        read = ours.get_text_features(input_ids=ids_of(TEXTS[0])).pooler_output
        torch.testing.assert_close(seen, model.encode_image(pixels), atol=1e-5, rtol=0)
        torch.testing.assert_close(read, model.encode_text(ids_of(TEXTS[0])), atol=1e-5, rtol=0)


def test_an_open_clip_folder_of_another_kind_is_refused(base: str, tmp_path: Path) -> None:
    (tmp_path / "open_clip_model.safetensors").write_bytes(b"")
    config = tmp_path / "open_clip_config.json"
    config.write_text(json.dumps({"model_cfg": {"embed_dim": 512, "vision_cfg": {"timm_model_name": "convnext"}}}))
    with pytest.raises(ConfigError, match="timm_model_name"):
        load_clip(str(tmp_path), base)
    config.write_text(json.dumps({"model_cfg": {"embed_dim": 512, "vision_cfg": {"layers": [3, 4, 6, 3]}}}))
    with pytest.raises(ConfigError, match="a ResNet"):
        load_clip(str(tmp_path), base)


def test_a_transformers_folder_gives_the_librarys_numbers(base: str, flag: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = CLIPModel(transformers_config(TINY)).eval()
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, DEVIATION))
    halved = (pixels_of(flag) * deviation + mean - 0.5) / 0.5
    with torch.inference_mode():
        wanted = unit(model.get_image_features(pixel_values=halved).pooler_output)
    np.testing.assert_allclose(ClipEncoder(str(tmp_path)).encode([Query("", flag)]), wanted, atol=1e-5)


def test_a_wrong_or_cut_checkpoint_is_refused_with_its_keys(uniir: Path, base: str, tmp_path: Path) -> None:
    state = dict(tiny_clip().state_dict())
    del state["visual.transformer.resblocks.1.mlp.c_fc.bias"]
    state["surplus"] = torch.zeros(2)
    state["text_projection"] = torch.zeros(64, 8)
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(ConfigError) as refused:
        load_clip(str(tmp_path / "other.pt"), base)
    for part in (
        "1 keys missing: vision_model.encoder.layers.1.mlp.fc1.bias",
        "1 keys unknown: surplus",
        "1 keys of another shape: text_projection.weight (8, 64) for (24, 64)",
        "download_checkpoints.sh",
    ):
        assert part in str(refused.value)
    (tmp_path / "cut.pth").write_bytes(uniir.read_bytes()[:5000])
    (tmp_path / "page.pth").write_bytes(b"<html>not found</html>")
    torch.save([1, 2], tmp_path / "list.pth")
    for name in ("cut.pth", "page.pth", "list.pth"):
        with pytest.raises(ConfigError, match=name):
            load_clip(str(tmp_path / name), base)
    with pytest.raises(ConfigError, match="No CLIPModel at"):
        load_clip("no/such-model", base)


def test_parts_that_are_not_looked_at_change_nothing(clip: ClipEncoder, uniir: Path, base: str, flag: str) -> None:
    texts_only = ClipEncoder(str(uniir), base, asking=Asking("image", "text"))
    np.testing.assert_array_equal(
        texts_only.encode_passages([Query("alpha", flag)]), clip.encode_passages([Query("alpha")])
    )
    np.testing.assert_array_equal(texts_only.encode([Query("alpha", flag)]), clip.encode([Query("", flag)]))
    assert texts_only.settings["candidate"] == "text" and texts_only.settings != clip.settings
    for encode, item in ((texts_only.encode, Query("alpha")), (texts_only.encode_passages, Query("", flag))):
        with pytest.raises(DataError, match="an item has none of it"):
            encode([item])


def test_the_instruction_goes_by_the_parts_of_the_query(clip: ClipEncoder, uniir: Path, base: str, flag: str) -> None:
    told = {"image,text": "find the country", "text": "find a text", "image": "what is it"}
    asked = ClipEncoder(str(uniir), base, asking=Asking(candidate="image,text", instructions=told))
    queries = [Query("where is it?", flag), Query("where is it?"), Query("", flag)]
    spelt = [Query("find the country where is it?", flag), Query("find a text where is it?"), Query("what is it", flag)]
    np.testing.assert_array_equal(asked.encode(queries), clip.encode(spelt))
    np.testing.assert_array_equal(asked.encode_passages(queries), clip.encode_passages(queries))


def test_instructions_are_read_from_m_beirs_table(tmp_path: Path) -> None:
    table = tmp_path / "query_instructions.tsv"
    table.write_text(
        "query_modality\tcand_modality\tdataset_name\tdataset_id\tprompt_1\tprompt_2\n"
        'image,text\ttext\tINFOSEEK\t6\tOwn "words" here.\tOthers\n'
        "image,text\timage,text\tINFOSEEK\t6\tFor both\t\ntext\ttext\tWebQA\t2\tElsewhere\t\n"
    )
    assert read_instructions(table, 6, "text") == {"image,text": 'Own "words" here.'}
    with pytest.raises(ConfigError, match="no row for the dataset 9"):
        read_instructions(table, 9, "text")
    table.write_text("a\tb\n1\t2\n")
    with pytest.raises(ConfigError, match="needs the columns"):
        read_instructions(table, 6, "text")


@pytest.mark.parametrize(
    ("text", "put"),
    [(' "a flag"\r\n', "A flag."), ("what?", "What?"), ("Done!", "Done!"), ("", ""), (' "" ', "")],
)
def test_texts_are_put_as_sentences(text: str, put: str) -> None:
    assert sentence(text) == put


def test_rows_do_not_depend_on_their_batch(clip: ClipEncoder, uniir: Path, base: str, flag: str) -> None:
    items = [Query("x" * 300), Query("alpha", flag), Query("", flag), Query("a b c d e f g")]
    rows = clip.encode(items)
    np.testing.assert_allclose(rows, np.concatenate([clip.encode([item]) for item in items]), atol=1e-5)
    np.testing.assert_allclose(rows[::-1], clip.encode(items[::-1]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    spread = SpreadEncoder([clip, ClipEncoder(str(uniir), base, asking=Asking(candidate="image,text"), batch_size=1)])
    np.testing.assert_allclose(spread.encode(items), rows, atol=1e-5)
    assert spread.settings == clip.settings and spread.encode([]).shape == (0, clip.dim)
    np.testing.assert_allclose(clip.encode([Query("x" * 300), Query("x" * 400)])[0], rows[0], atol=1e-5)


@pytest.mark.parametrize("size", [(48, 32), (40, 60), (32, 32), (200, 32), (8, 9)])
def test_the_middle_square_is_the_librarys(size: tuple[int, int]) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (*size, 3), dtype=np.uint8))
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=32, do_normalize=False, do_rescale=False)
    wanted = processor(image, return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(middle_square(image, 32)), wanted)


def test_an_odd_rest_is_halved_as_clips_transform_does() -> None:
    """To the even side; the library's processor rounds down, one pixel to the left here."""
    columns = np.tile(np.arange(47, dtype=np.uint8)[None, :, None], (32, 1, 3))
    assert middle_square(Image.fromarray(columns), 32).getpixel((0, 0)) == (8, 8, 8)


def test_a_line_of_a_picture_costs_no_memory() -> None:
    assert middle_square(Image.new("RGB", (60_000, 1), "red"), 32).getpixel((5, 5)) == (255, 0, 0)


def test_a_picture_that_cannot_be_opened_is_named(clip: ClipEncoder, tmp_path: Path) -> None:
    (tmp_path / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(DataError, match=r"torn\.jpg"):
        clip.encode([Query("alpha", str(tmp_path / "torn.jpg"))])
