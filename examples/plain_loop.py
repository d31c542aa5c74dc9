"""The augmented objective in a training loop of one's own: no trainer, no command line.

python plain_loop.py MODEL
"""

import sys

import torch
from transformers import AutoModelForSeq2SeqLM

import iada
from iada.method.perturbation import Vocabulary

documents = [
    (["The dog is old.", "It sleeps."], ["Der Hund ist alt.", "Er schläft."]),
    (["The lamp is new.", "It is red."], ["Die Lampe ist neu.", "Sie ist rot."]),
]
torch.manual_seed(1)
windows = iada.DocumentWindows(documents, sys.argv[1], ("en", "de"))
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1]).train()
objective = iada.AugmentedObjective(
    model,
    iada.AugmentConfig(measure="tnorm", replacement="replace"),
    vocabulary=Vocabulary.of_tokenizer(windows.subwords),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for update, batch in enumerate(windows.batches(max_tokens=256, epochs=30)):
    losses = objective(batch, update=update)
    (losses.total / losses.count).backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"update {update}: {float(losses.total / losses.count):.3f}")
