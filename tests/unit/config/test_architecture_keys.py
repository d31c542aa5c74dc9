"""Keys of architectures: defaults, and combinations that are refused with a reason."""

import pytest

from iada.config.data import WindowConfig
from iada.config.method import Method, augmentation
from iada.config.model import ARCHITECTURES, ModelConfig, TemplateConfig, check_windows
from iada.config.run import RunConfig
from iada.errors import ConfigError


def test_defaults_follow_the_architecture() -> None:
    assert ModelConfig(architecture="flat").wide == 5
    assert ModelConfig(architecture="gtrans").wide == 2
    assert ModelConfig(architecture="gtrans", encoder_layers=1, decoder_layers=1).wide == 1
    assert ModelConfig(architecture="docflat").far == 12
    assert ModelConfig(architecture="han").sides == "encoder"
    assert ModelConfig(architecture="han").stops_context
    assert ModelConfig().far == 0


@pytest.mark.parametrize(
    ("keys", "reads"),
    [
        ({"architecture": "doc2doc"}, True),
        ({"architecture": "flat"}, False),
        ({"architecture": "gtrans"}, True),
        ({"architecture": "han"}, False),
        ({"architecture": "han", "context_sides": "decoder"}, True),
        ({"architecture": "han", "context_sides": "both"}, True),
        ({"architecture": "san"}, False),
        ({"architecture": "hybrid"}, True),
        ({"architecture": "docflat"}, True),
    ],
)
def test_target_context_is_read_where_a_decoder_can_use_it(
    keys: dict[str, str], reads: bool
) -> None:
    assert ModelConfig(**keys).target_context == reads  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"wide_layers": 1},
            "`model.wide_layers` means nothing to `model.architecture: doc2doc`; it belongs to "
            "flat, gtrans. Remove the key.",
        ),
        (
            {"architecture": "gtrans", "gate": "hard"},
            "`model.gate` means nothing to `model.architecture: gtrans`; it belongs to docflat.",
        ),
        (
            {"architecture": "flat", "context_sides": "both"},
            "`model.context_sides` must be encoder with `flat`, but is 'both'.",
        ),
        (
            {"architecture": "gtrans", "wide_layers": 7},
            "`model.wide_layers` must be between 0 and the number of layers (6), but is 7.",
        ),
        (
            {"architecture": "san", "frozen_context": True, "stop_context": False},
            "`model.stop_context` must be true with `model.frozen_context`",
        ),
        ({"architecture": "flat", "after": -1}, "`model.after` must be 0 or more, but is -1."),
        (
            {"architecture": "han", "pretrained": "some/model"},
            "`model.architecture: han` is built from scratch, but `model.pretrained` is "
            "'some/model'. Remove one of the two keys, or choose doc2doc or flat or gtrans.",
        ),
        ({"architecture": "hen"}, "`model.architecture` must be one of doc2doc, flat,"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ModelConfig(**keys)  # type: ignore[arg-type]
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("model", "windows", "message"),
    [
        (ModelConfig(architecture="han"), WindowConfig(context=0), "reads context, but"),
        (ModelConfig(architecture="flat"), WindowConfig(strategy="multires"), "multires"),
        (ModelConfig(architecture="flat", after=1), WindowConfig(stride=2), "one current sentence"),
        (
            ModelConfig(architecture="flat", after=1),
            WindowConfig(noisy_context=1),
            "do not go together",
        ),
    ],
)
def test_windows_that_an_architecture_cannot_read_are_refused(
    model: ModelConfig, windows: WindowConfig, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_windows(model, windows)


def test_every_architecture_has_a_title_of_its_own() -> None:
    titles = [traits.title for traits in ARCHITECTURES.values()]
    assert len(set(titles)) == len(titles)


def test_a_template_belongs_to_decoder_only_models() -> None:
    template = TemplateConfig(opening="Translate.")
    assert ModelConfig(architecture="causal", template=template).template is template
    with pytest.raises(ConfigError, match=r"`model\.template` means nothing to .*doc2doc"):
        ModelConfig(template=template)
    with pytest.raises(ConfigError, match=r"`model\.template\.target` must be some text"):
        TemplateConfig(target="")


@pytest.mark.parametrize("method", ["bpe_dropout", "cipher"])
def test_text_that_is_drawn_anew_is_refused_with_one_sequence(method: Method) -> None:
    with pytest.raises(ConfigError, match="whose windows are one sequence"):
        RunConfig(model=ModelConfig(architecture="causal"), augment=augmentation(method))
