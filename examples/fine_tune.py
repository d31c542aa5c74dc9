"""Fine-tune a pre-trained translation model with importance-aware augmentation.

    python fine_tune.py MODEL CORPUS OUTPUT

MODEL is a folder or a hub name, CORPUS a folder with train.en and train.de, one sentence per line
and a blank line between documents.
"""

import sys

from transformers import AutoModelForSeq2SeqLM, TrainingArguments

import iada

model, corpus, output = sys.argv[1:4]
documents = iada.read_documents(f"{corpus}/train.en", f"{corpus}/train.de")
windows = iada.DocumentWindows(documents, model, ("en", "de"), context=2)
trainer = iada.IadaTrainer(
    AutoModelForSeq2SeqLM.from_pretrained(model),
    TrainingArguments(output, max_steps=10, remove_unused_columns=False, report_to="none"),
    augment=iada.AugmentConfig(measure="gnorm", replacement="replace"),
    train_dataset=windows,
    train_sampler=windows.sampler(max_tokens=1024),
    data_collator=windows.collator,
    processing_class=windows.subwords.tokenizer,
)
trainer.train()
trainer.save_model(output)
