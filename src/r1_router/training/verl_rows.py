"""Step prompts as the Parquet rows that verl reads.

    {"data_source": "steps_ret", "prompt": [system message, user message], "images": [{"image": path, "max_pixels"}],
     "ability": "ret", "reward_model": {"style": "rule", "ground_truth": target},
     "extra_info": {"index", "id", "step_type"}}

verl reports validation by `data_source`, so each kind of step has a curve of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r1_router.errors import DataError
from r1_router.files import write_atomically
from r1_router.synthesis.rows import IMAGE_MARK
from r1_router.training.grpo.prompts import Fitted, StepPrompt, fit
from r1_router.types import Message

OTHER_MARKS = ("<video>", "<audio>")
PIXELS_A_SIDE = 28
"""A token of Qwen2.5-VL shows a square of so many pixels a side."""


def require_readable(prompts: Sequence[StepPrompt]) -> None:
    """Raises DataError for a missing picture, and for text that verl takes for a medium: it drops such rows itself."""
    for prompt in prompts:
        if missing := [image for image in prompt.images if not Path(image).is_file()]:
            raise DataError(f"step {prompt.id}: no picture {missing[0]}; run where the paths of the step rows lead.")
        text = "".join(_marked(message) for message in prompt.messages)
        if prompt.images and (found := [mark for mark in OTHER_MARKS if mark in text]):
            raise DataError(f"step {prompt.id}: {found[0]} in its text means a medium to verl; take it out.")


def verl_row(prompt: StepPrompt, index: int, max_pixels: int) -> dict[str, Any]:
    """One step as verl reads it; a picture is scaled down to `max_pixels`."""
    images = [{"image": str(Path(image).resolve()), "max_pixels": max_pixels} for image in prompt.images]
    return {
        "data_source": f"steps_{prompt.step_type}",
        "prompt": [{"role": message["role"], "content": _marked(message)} for message in prompt.messages],
        "images": images,
        "ability": prompt.step_type,
        "reward_model": {"style": "rule", "ground_truth": prompt.target},
        "extra_info": {"index": index, "id": prompt.id, "step_type": prompt.step_type},
    }


def write_verl_rows(path: Path, prompts: Sequence[StepPrompt], max_pixels: int) -> None:
    """Write the prompts as a Parquet file, whole or not at all; raises DataError for half a character."""
    import pyarrow
    from pyarrow import parquet

    text, number = pyarrow.string(), pyarrow.int64()
    schema = pyarrow.schema(
        {
            "data_source": text,
            "prompt": pyarrow.list_(pyarrow.struct({"role": text, "content": text})),
            "images": pyarrow.list_(pyarrow.struct({"image": text, "max_pixels": number})),
            "ability": text,
            "reward_model": pyarrow.struct({"style": text, "ground_truth": text}),
            "extra_info": pyarrow.struct({"index": number, "id": text, "step_type": text}),
        }
    )
    rows = [verl_row(prompt, index, max_pixels) for index, prompt in enumerate(prompts)]
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

    def length(prompt: StepPrompt) -> int:
        text = tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)
        shown = sum(_image_tokens(image, max_pixels) - 1 for image in prompt.images)  # the text holds one for each
        return len(tokenizer(text, add_special_tokens=False)["input_ids"]) + shown

    return fit(prompts, length, most, shorten=True)


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
