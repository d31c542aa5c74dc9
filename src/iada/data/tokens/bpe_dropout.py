"""Random segmentations of words: byte-pair encoding whose merges are skipped at random.

The procedure of BPE-dropout: of all pairs of neighbours that could merge, each is skipped with
probability p; the first survivor in the order of the merges is applied; again from the beginning,
until no pair survives. Going through the candidates in order and taking the first that is not
skipped is the same, so a step is one number: how many candidates are passed over, which is i or
more with probability p^i. What follows is a walk over states, a state being a word cut into pieces.
Its candidates are found once and remembered, and all words of a batch walk together.
"""

import json
from array import array
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from iada.data.prepared.store import Ids, Offsets
from iada.data.tokens.subwords import Subwords

_MOST_STATES = 2_000_000
"""What is remembered, some hundred bytes each; beyond, the memory is emptied."""
_UNKNOWN = -1


class MergeWalk:
    """Segment words with one byte-pair encoding; words are given by their plain pieces."""

    def __init__(self, subwords: Subwords) -> None:
        model = json.loads(subwords.tokenizer.to_str())["model"]
        ids: dict[str, int] = model["vocab"]
        self._merges = {
            (ids[left], ids[right]): (rank, ids[left + right])
            for rank, (left, right) in enumerate(model["merges"])
        }
        made = {product for _, product in self._merges.values()}
        # Specials, bytes and single characters cannot be taken apart.
        self._characters = {
            number: [ids[character] for character in piece] if number in made else [number]
            for piece, number in ids.items()
        }
        self._forget()

    def words(self, ids: Ids, begins: Offsets) -> tuple[Offsets, Offsets]:
        """Find words.

        Args:
            ids: (tokens,) plain pieces of words, end to end.
            begins: (words,) where each word begins.

        Returns:
            Two arrays (words,): the state of each word cut into characters, and in plain pieces.
        """
        if len(self._numbers) > _MOST_STATES:
            self._forget()
        raw = np.ascontiguousarray(ids, dtype=np.int32).tobytes()
        bounds = [*(4 * begins).tolist(), len(raw)]
        texts = [raw[a:b] for a, b in pairwise(bounds)]
        found = list(map(self._words.get, texts))
        if None in found:
            for text in set(texts).difference(self._words):
                pieces = np.frombuffer(text, np.int32).tolist()
                characters = [c for piece in pieces for c in self._characters[piece]]
                self._words[text] = len(self._words)
                self._states.extend((self._state(characters), self._state(pieces)))
            found = list(map(self._words.get, texts))
        states = np.frombuffer(self._states, np.int64).reshape(-1, 2)[np.array(found)]
        return states[:, 0], states[:, 1]

    def lengths(self, states: Offsets) -> Offsets:
        """(words,): number of pieces of each state."""
        begins = np.frombuffer(self._begins, np.int64)
        return np.asarray(begins[states + 1] - begins[states])

    def pieces(self, states: Offsets) -> Ids:
        """(tokens,): the pieces of states, (words,), end to end."""
        begins = np.frombuffer(self._begins, np.int64)[states]
        lengths = self.lengths(states)
        # A piece's place in the table, less its place in the result, is constant in a word.
        shift = begins - (np.cumsum(lengths) - lengths)
        places = np.repeat(shift, lengths) + np.arange(int(lengths.sum()))
        return np.frombuffer(self._pieces, np.int32)[places]

    def walk(self, states: Offsets, passed_over: Offsets) -> Offsets:
        """Merge until no pair survives.

        Args:
            states: (words,) where to begin.
            passed_over: candidates that each step passes over, `lengths(states)` numbers for each
                word, one word after the other; more than any word needs.

        Returns:
            (words,) states.
        """
        states = states.copy()
        lengths = self.lengths(states)
        own = np.cumsum(lengths) - lengths
        walking = np.arange(len(states))
        while True:
            begins, ends = self._candidates(states[walking])
            chosen = begins + passed_over[own[walking]]
            survives = chosen < ends
            walking, chosen = walking[survives], chosen[survives]
            if not len(walking):
                return states
            states[walking] = self._follow(chosen)
            own[walking] += 1

    def _candidates(self, states: Offsets) -> tuple[Offsets, Offsets]:
        """Return where the candidates of each state begin and end in the table."""
        first = np.frombuffer(self._first, np.int64)
        return first[states], first[states + 1]

    def _follow(self, candidates: Offsets) -> Offsets:
        """Return the states after merges, given by their places in the table of candidates."""
        reached = np.frombuffer(self._reached, np.int64)[candidates]
        if (reached == _UNKNOWN).any():
            for candidate in np.unique(candidates[reached == _UNKNOWN]).tolist():
                self._reached[candidate] = self._merged(candidate)
            reached = np.frombuffer(self._reached, np.int64)[candidates]
        return reached

    def _merged(self, candidate: int) -> int:
        """Return the state after a merge that nobody has made before."""
        state, place = self._owner[candidate], self._place[candidate]
        pieces = self._pieces[self._begins[state] : self._begins[state + 1]].tolist()
        pieces[place : place + 2] = [self._product[candidate]]
        return self._state(pieces)

    def _state(self, pieces: Iterable[int]) -> int:
        """Return the number of a state, and find its candidates if it is new."""
        key = tuple(pieces)
        number = self._numbers.get(key)
        if number is not None:
            return number
        number = self._numbers[key] = len(self._numbers)
        self._pieces.extend(key)
        self._begins.append(len(self._pieces))
        pairs = map(self._merges.get, pairwise(key))
        found = sorted((merge[0], place, merge[1]) for place, merge in enumerate(pairs) if merge)
        for _, place, product in found:
            self._owner.append(number)
            self._place.append(place)
            self._product.append(product)
            self._reached.append(_UNKNOWN)
        self._first.append(len(self._reached))
        return number

    def _forget(self) -> None:
        """Begin with empty tables."""
        self._words: dict[bytes, int] = {}
        """Number of each word, by its plain pieces."""
        self._states = array("q")
        """The two states of each word, one after the other."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """Number of each state."""
        self._pieces, self._begins = array("i"), array("q", [0])
        """Pieces of all states end to end, and where each begins."""
        self._first = array("q", [0])
        """Where the candidates of each state begin; they stand in the order of the merges."""
        self._owner, self._place, self._product = array("q"), array("i"), array("i")
        """State of each candidate, where in it the pair stands, and what it becomes."""
        self._reached = array("q")
        """State that each candidate leads to."""


def passed_over(uniform: npt.NDArray[np.float64], probability: float) -> Offsets:
    """Return how many candidates in a row are skipped: i or more with probability p^i.

    Args:
        uniform: (draws,) numbers in [0, 1).
        probability: p, in [0, 1].

    Returns:
        (draws,); more than any word has candidates where nothing survives.
    """
    most = np.iinfo(np.int32).max
    if probability in (0, 1):
        return np.full(len(uniform), probability * most, dtype=np.int64)
    skipped: npt.NDArray[np.float64] = np.log1p(-uniform) / np.log(probability)
    return np.minimum(skipped, most).astype(np.int64)
