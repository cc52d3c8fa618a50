from pathlib import Path

import pytest

from jpr.encode.encoder_settings import EncoderSettings, read_settings, write_settings
from jpr.errors import ConfigError, FormatError
from tests.encode.tiny import CONFIG, write_json


def hugging_face(folder: Path, **files: object) -> Path:
    """Write a folder's JSON files; `__` in a name stands for a slash."""
    write_json(folder / "config.json", CONFIG)
    for name, value in files.items():
        write_json(folder / f"{name.replace('__', '/')}.json", value)
    return folder


def modules(*kinds: str) -> list[dict[str, str]]:
    return [
        {"path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]


def test_our_own_file_holds_everything(tmp_path: Path) -> None:
    made = EncoderSettings("cls", "norm", False, "separate", "q: ", "p: ", "[SEP]", 10, 20, 30, "w")
    write_settings(made, tmp_path, [])
    assert read_settings(tmp_path) == made


def test_a_plain_hugging_face_folder(tmp_path: Path) -> None:
    assert read_settings(hugging_face(tmp_path)) == EncoderSettings(
        max_question_tokens=48, max_passage_tokens=48
    )


def test_what_sentence_transformers_says(tmp_path: Path) -> None:
    folder = hugging_face(
        tmp_path,
        modules=modules("Transformer", "Pooling", "Dense", "Normalize"),
        **{
            "1_Pooling__config": {
                "pooling_mode_cls_token": True,
                "pooling_mode_mean_tokens": False,
            },
            "2_Dense__config": {"activation_function": "torch.nn.modules.activation.Tanh"},
        },
        config_sentence_transformers={"prompts": {"query": "query: ", "document": "passage: "}},
        sentence_bert_config={"max_seq_length": 40},
    )
    assert read_settings(folder) == EncoderSettings(
        pooling="cls",
        projection="tanh",
        question_prompt="query: ",
        passage_prompt="passage: ",
        max_question_tokens=40,
        max_passage_tokens=40,
    )


def test_without_their_last_module_vectors_keep_their_length(tmp_path: Path) -> None:
    folder = hugging_face(
        tmp_path,
        modules=modules("Transformer", "Pooling"),
        **{"1_Pooling__config": {"pooling_mode": "mean"}},
    )
    assert not read_settings(folder).normalise


def test_dpr_has_two_towers_and_inner_products(tmp_path: Path) -> None:
    for tower in ("question", "passage"):
        write_json(tmp_path / tower / "config.json", {**CONFIG, "model_type": "dpr"})
    assert read_settings(tmp_path) == EncoderSettings(
        pooling="cls", normalise=False, towers="separate", title_joint="[SEP]"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"poolin": "cls"}, "poolin; did you mean pooling?"),
        ({"pooling": 3}, "pooling = 3; give a string"),
        ({"normalise": "yes"}, "normalise = 'yes'; give a boolean"),
        ({"max_passage_tokens": True}, "max_passage_tokens = True; give a whole number"),
        ({"pooling": "max"}, "pooling = 'max'; choose one of mean, cls, pooler"),
        ({"max_question_tokens": 2}, "max_question_tokens = 2; "),
        ([], "JSON object"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, given: object, said: str) -> None:
    write_json(tmp_path / "encoder.json", given)
    with pytest.raises(FormatError, match=r"encoder\.json: ") as raised:
        read_settings(tmp_path)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("file", "value", "said"),
    [
        ("config", {"model_type": "t5"}, "model_type 't5'"),
        ("modules", {}, "list of modules"),
        ("modules", modules("Transformer", "LSTM"), "module 'LSTM'"),
        ("1_Pooling__config", {"pooling_mode": "lasttoken"}, "pooling 'lasttoken'"),
        ("2_Dense__config", {"activation_function": "x.ReLU"}, "activation 'ReLU'"),
    ],
)
def test_what_is_not_known_of_a_folder_is_named(
    tmp_path: Path, file: str, value: object, said: str
) -> None:
    known = {
        "modules": modules("Transformer", "Pooling", "Dense"),
        "1_Pooling__config": {"pooling_mode": "mean"},
        "2_Dense__config": {"activation_function": "torch.nn.Identity"},
    }
    with pytest.raises(FormatError, match=said):
        read_settings(hugging_face(tmp_path, **{**known, file: value}))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"config\.json: "):
        read_settings(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError, match=r"config\.json: .*JSON"):
        read_settings(tmp_path)


def test_settings_are_checked_when_they_are_made() -> None:
    with pytest.raises(ConfigError, match="projection = 'deep'"):
        EncoderSettings(projection="deep")
