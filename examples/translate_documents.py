"""Translate documents with a stock checkpoint, sentence by sentence, and see what it looks at.

python translate_documents.py MODEL
"""

import sys

import iada

translator = iada.DocumentTranslator.from_pretrained(
    sys.argv[1], source_language="en", target_language="de", context=1
)
source = ["The dog is old.", "It sleeps."]
target = translator.translate(source)
print(*target, sep="\n")

# Importance of the tokens for the reference translation of the last sentence.
windows = iada.DocumentWindows(
    [(source, ["Der Hund ist alt.", "Er schläft."])], sys.argv[1], ("en", "de"), context=1
)
batch = windows.collator([windows[0, 1]])
phi, _ = iada.importance(translator.model, batch, "gnorm")
pieces = windows.subwords.pieces(batch["input_ids"][0].tolist())
for piece, value in zip(pieces, phi[0].tolist(), strict=True):
    print(f"{piece:<12}{value:.3f}")
