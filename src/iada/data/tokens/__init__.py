"""Text to token ids and back: subwords, the word-by-word encoder, BPE-dropout and ciphers."""
