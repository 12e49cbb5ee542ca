"""Step prompts as the Parquet rows that verl reads.

    {"data_source": "steps_ret", "prompt": [system message, user message], "images": [{"image": path, "max_pixels"}],
     "ability": "ret", "reward_model": {"style": "rule", "ground_truth": target},
     "extra_info": {"index", "id", "step_type"}}

verl reports validation by `data_source`, so each kind of step has a curve of its own. For the live agent loop
`extra_info` holds the step's place too: {"question", "picture", "number", "asked"}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from r1_router.errors import DataError
from r1_router.files import write_atomically
from r1_router.prompts.messages import origin
from r1_router.prompts.released import IMAGE_MARK
from r1_router.training.grpo.places import Place, problem
from r1_router.training.grpo.prompts import Fitted, StepPrompt, fit
from r1_router.types import Message, Question

OTHER_MARKS = ("<video>", "<audio>")
PIXELS_A_SIDE = 28
"""A token of Qwen2.5-VL shows a square of so many pixels a side."""


def require_readable(prompts: Sequence[StepPrompt]) -> None:
    """Raises DataError for a missing picture, and for text that verl takes for a medium: it drops such rows itself."""
    for prompt in prompts:
        if missing := [image for image in prompt.images if not Path(image).is_file()]:
            raise DataError(f"step {prompt.id}: no picture {missing[0]}; paths start from the folder of the step rows.")
        text = "".join(_marked(message) for message in prompt.messages)
        if prompt.images and (found := [mark for mark in OTHER_MARKS if mark in text]):
            raise DataError(f"step {prompt.id}: {found[0]} in its text means a medium to verl; take it out.")


def verl_row(prompt: StepPrompt, index: int, max_pixels: int, place: Place | None = None) -> dict[str, Any]:
    """One step as verl reads it, with its place if it is walked to; a picture is scaled down to `max_pixels`."""
    images = [{"image": str(Path(image).resolve()), "max_pixels": max_pixels} for image in prompt.images]
    return {
        "data_source": f"steps_{prompt.step_type}",
        "prompt": [{"role": message["role"], "content": _marked(message)} for message in prompt.messages],
        "images": images,
        "ability": prompt.step_type,
        "reward_model": {"style": "rule", "ground_truth": prompt.target},
        "extra_info": {"index": index, "id": prompt.id, "step_type": prompt.step_type, **_place_row(place)},
    }


def read_place(extra_info: Mapping[str, Any]) -> Place:
    """The place that a row's `extra_info` holds; raises DataError for a row that was written without."""
    if "asked" not in extra_info:
        raise DataError(f"step {extra_info['id']}: the row holds no place; set steps.live: true, and start anew.")
    question = Question(extra_info["id"], extra_info["question"], image=extra_info["picture"])
    return Place(question, extra_info["step_type"], int(extra_info["number"]), extra_info["asked"])


def own_question(first: StepPrompt) -> Question:
    """The question that a row's first step shows; raises DataError where that shows more than the question."""
    text = problem(first).strip().removeprefix(origin(Question("", ""), ()).strip()).strip()
    if problem(first).strip() != origin(Question("", text), ()).strip():
        raise DataError(
            f"step {first.id}: a row that is walked opens with `Origin question: ..`, not with another prompt."
        )
    return Question(first.id, text, image=first.images[0] if first.images else None)


def write_verl_rows(
    path: Path, prompts: Sequence[StepPrompt], max_pixels: int, places: Mapping[str, Place] | None = None
) -> None:
    """Write the prompts as a Parquet file, whole or not at all; raises DataError for half a character.

    With `places`, by the prompts' ids, the rows are for the live agent loop.
    """
    import pyarrow
    from pyarrow import parquet

    text, number = pyarrow.string(), pyarrow.int64()
    place = {"question": text, "picture": text, "number": number, "asked": text} if places else {}
    schema = pyarrow.schema(
        {
            "data_source": text,
            "prompt": pyarrow.list_(pyarrow.struct({"role": text, "content": text})),
            "images": pyarrow.list_(pyarrow.struct({"image": text, "max_pixels": number})),
            "ability": text,
            "reward_model": pyarrow.struct({"style": text, "ground_truth": text}),
            "extra_info": pyarrow.struct({"index": number, "id": text, "step_type": text, **place}),
        }
    )
    found = places or {}
    rows = [verl_row(prompt, index, max_pixels, found.get(prompt.id)) for index, prompt in enumerate(prompts)]
    sink = pyarrow.BufferOutputStream()
    try:
        parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), sink)
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: Parquet cannot hold half a character ({error}); mend the step rows.") from error
    write_atomically(path, sink.getvalue().to_pybytes())


def fitted(prompts: Sequence[StepPrompt], model: str, most: int, max_pixels: int) -> Fitted:
    """The prompts that have at most `most` tokens of `model`, their pictures with them; evidence gives way first."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)

    def length(messages: Sequence[Message]) -> int:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        shown = sum(_image_tokens(image, max_pixels) - 1 for image in _images(messages))  # the text holds one for each
        return len(tokenizer(text, add_special_tokens=False)["input_ids"]) + shown

    return fit(prompts, length, most, shorten=True)


def _place_row(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    picture = place.question.image and str(Path(place.question.image).resolve())
    return {"question": place.question.text, "picture": picture, "number": place.number, "asked": place.asked}


def _images(messages: Sequence[Message]) -> list[str]:
    parts = [part for message in messages if not isinstance(message["content"], str) for part in message["content"]]
    return [part["image"] for part in parts if part["type"] == "image"]


def _image_tokens(image: str, max_pixels: int) -> int:
    from PIL import Image
    from qwen_vl_utils.vision_process import smart_resize

    with Image.open(image) as picture:
        sides = smart_resize(picture.height, picture.width, factor=PIXELS_A_SIDE, max_pixels=max_pixels)
    return int(sides[0] * sides[1]) // PIXELS_A_SIDE**2


def _marked(message: Message) -> str:
    """The message as one text, with a mark for each picture; text-only rows stay texts, with no picture at all."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part["type"] == "text" else IMAGE_MARK for part in content)
