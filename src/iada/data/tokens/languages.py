"""From the name of a language, such as `de`, to the code that a pre-trained vocabulary has for it.

Vocabularies write codes in their own ways: `de_DE` (mBART), `de` (M2M100), `deu_Latn` (NLLB),
`deu` in `>>deu<<` (OPUS), `de` in `<2de>` (MADLAD). A language is looked up as it is given, then by
its part before the region or script, then by its three-letter name. A code is used only if it is
the only one that fits.
"""

from collections.abc import Collection

from iada.errors import ConfigError

THREE_LETTERS = {
    **{"af": "afr", "am": "amh", "ar": "ara", "as": "asm", "ay": "aym", "az": "aze", "ba": "bak"},
    **{"be": "bel", "bg": "bul", "bm": "bam", "bn": "ben", "bo": "bod", "bs": "bos", "ca": "cat"},
    **{"cs": "ces", "cy": "cym", "da": "dan", "de": "deu", "dz": "dzo", "ee": "ewe", "el": "ell"},
    **{"en": "eng", "eo": "epo", "es": "spa", "et": "est", "eu": "eus", "fa": "fas", "fi": "fin"},
    **{"fj": "fij", "fo": "fao", "fr": "fra", "ga": "gle", "gd": "gla", "gl": "glg", "gn": "grn"},
    **{"gu": "guj", "ha": "hau", "he": "heb", "hi": "hin", "hr": "hrv", "ht": "hat", "hu": "hun"},
    **{"hy": "hye", "id": "ind", "ig": "ibo", "is": "isl", "it": "ita", "ja": "jpn", "jv": "jav"},
    **{"ka": "kat", "kg": "kon", "ki": "kik", "kk": "kaz", "km": "khm", "kn": "kan", "ko": "kor"},
    **{"ks": "kas", "ku": "kur", "ky": "kir", "lb": "ltz", "lg": "lug", "li": "lim", "ln": "lin"},
    **{"lo": "lao", "lt": "lit", "lv": "lav", "mg": "mlg", "mi": "mri", "mk": "mkd", "ml": "mal"},
    **{"mn": "mon", "mr": "mar", "ms": "msa", "mt": "mlt", "my": "mya", "nb": "nob", "ne": "nep"},
    **{"nl": "nld", "nn": "nno", "no": "nor", "ny": "nya", "oc": "oci", "om": "orm", "or": "ori"},
    **{"pa": "pan", "pl": "pol", "ps": "pus", "pt": "por", "qu": "que", "rn": "run", "ro": "ron"},
    **{"ru": "rus", "rw": "kin", "sa": "san", "sc": "srd", "sd": "snd", "sg": "sag", "si": "sin"},
    **{"sk": "slk", "sl": "slv", "sm": "smo", "sn": "sna", "so": "som", "sq": "sqi", "sr": "srp"},
    **{"ss": "ssw", "st": "sot", "su": "sun", "sv": "swe", "sw": "swa", "ta": "tam", "te": "tel"},
    **{"tg": "tgk", "th": "tha", "ti": "tir", "tk": "tuk", "tl": "tgl", "tn": "tsn", "tr": "tur"},
    **{"ts": "tso", "tt": "tat", "tw": "twi", "ug": "uig", "uk": "ukr", "ur": "urd", "uz": "uzb"},
    **{"vi": "vie", "wo": "wol", "xh": "xho", "yi": "yid", "yo": "yor", "zh": "zho", "zu": "zul"},
}
"""ISO 639-1 to ISO 639-3."""
STANDARD_VARIETIES = {
    **{"ara": "arb", "aym": "ayr", "aze": "azj", "fas": "pes", "kur": "kmr", "lav": "lvs"},
    **{"mlg": "plt", "mon": "khk", "msa": "zsm", "nep": "npi", "nor": "nob", "ori": "ory"},
    **{"orm": "gaz", "pus": "pbt", "que": "quy", "sqi": "als", "swa": "swh", "uzb": "uzn"},
    **{"yid": "ydd", "zho": "cmn"},
}
"""Macrolanguages of ISO 639-3 to the variety that NLLB and OPUS name in their place."""

NAMES = {
    **{"af": "Afrikaans", "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali"},
    **{"ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German"},
    **{"el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque"},
    **{"fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician"},
    **{"gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian"},
    **{"hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese"},
    **{"ka": "Georgian", "kk": "Kazakh", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian"},
    **{"mk": "Macedonian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "nl": "Dutch"},
    **{"no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian"},
    **{"sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish"},
    **{"sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish"},
    **{"uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese"},
}
"""English names, for prompts."""


def language_name(language: str) -> str:
    """Return the English name of a language; what is not known stays as it is given."""
    return NAMES.get(_language_part(language), language)


def find_language_code(
    language: str, known: Collection[str], *, key: str, model: str, instead: str
) -> str:
    """Return the code of a language.

    Args:
        language: what the user calls it.
        known: the codes of the vocabulary, without their decoration.
        key: where the name was given, for the message.
        model: whose codes they are, for the message.
        instead: what to set where no code is found, for the message.

    Raises:
        ConfigError: no code fits, or several do; lists them.
    """
    if language in known:
        return language
    three = THREE_LETTERS.get(language, language)
    names = (language.lower(), three, STANDARD_VARIETIES.get(three, three))
    for name in dict.fromkeys(names):
        exact = [code for code in known if code.lower() == name]
        fitting = exact or [code for code in known if _language_part(code) == name]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ConfigError(
                f"`{key}` is `{language}`, but {model} has several codes for it: "
                f"{', '.join(sorted(fitting))}. Set {instead} to one of them."
            )
    raise ConfigError(
        f"`{key}` is `{language}`, for which {model} has no language code. Set {instead} to one of "
        f"those that it knows: {', '.join(sorted(known))}."
    )


def _language_part(code: str) -> str:
    return code.replace("-", "_").partition("_")[0].lower()
