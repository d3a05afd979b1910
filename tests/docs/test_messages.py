"""Each error and each WARNING or ERROR in the log can be found in Troubleshooting, by words of its message."""

from __future__ import annotations

import logging
import re
from functools import cache

import pytest

from aiolock.event_log import CALM_LOSS, COLLECTED, LINES

from .blocks import ROOT
from .error_texts import UNKNOWN, complaints, error_texts
from .log_calls import log_calls

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")
VALUE = re.compile(r"%(?:\(\w+\))?[-.\d]*[a-z]")
WORDS = 2
"""The fewest in a row that a reader would search for."""
SIMILAR = 8
"""How many messages one row may speak of: with more, its words say too little."""


def section(title: str) -> str:
    return re.split(rf"^## {title}$", PAGE, flags=re.M)[1].partition("\n## ")[0]


def phrases(title: str) -> list[str]:
    """The words of messages that a section names, before the colon of each item of its lists."""
    heads = re.findall(r"^- ((?:`[^`]+`(?:,\s+)?)+): ", section(title).replace("\n  ", " "), re.M)
    return [found for head in heads for found in re.findall(r"`(.+?)`", head)]


def own_words(text: str) -> int:
    """How many words in a row are the message's, and not what only the program knows."""
    return max(len(part.split()) for part in text.split(UNKNOWN))


def errors() -> dict[str, str]:
    """The texts of errors, each with a place that it comes from; the shortest are only parts of others."""
    return {found.text: found.place for found in sorted(error_texts()) if own_words(found.text) > WORDS}


def searches(text: str) -> list[str]:
    """What a reader looks for who does as the page says: two words of the message, then the next two, and so on."""
    parts = ([word for word in part.split() if re.search(r"\w", word)] for part in text.split(UNKNOWN))
    pairs = (part[at : at + 2] for part in parts for at in range(0, len(part) - 1, 2))
    return [" ".join(pair).strip(":,;.?`(") for pair in pairs]


@cache
def lines() -> dict[str, str]:
    """The messages of WARNING and ERROR lines, each with its logger."""
    of_events = [line for line in (*LINES.values(), COLLECTED, CALM_LOSS) if line.level >= logging.WARNING]
    found = {line.message: line.log.name for line in of_events}
    found |= {call.message: call.logger for call in log_calls() if {"WARNING", "ERROR"} & {*call.levels.split(", ")}}
    found |= {text: "aiolock.redis" for _, text in complaints()}
    told = {VALUE.sub(UNKNOWN, text): logger for text, logger in found.items()}
    return {text: logger for text, logger in told.items() if own_words(text) >= WORDS}


MESSAGES = {"Messages of errors": errors, "Lines in the log": lines}
"""By the section of the page."""


def test_the_texts_are_found() -> None:
    """What stands at the place of the error, in a table, in a function that makes it, and with a caller."""
    texts = {found.text for found in error_texts()}
    assert len(texts) > 250
    assert texts >= {
        "Redis did not answer in time: is this its address?",
        "it is out of memory: raise maxmemory",
        "does not speak TLS: write redis://",
        "it was deleted while it was opened",
    }


@pytest.mark.parametrize("title", MESSAGES)
def test_every_message_is_there(title: str) -> None:
    """Broken by a message that the page does not have, and by words on it that are in no message any more."""
    words, messages = phrases(title), MESSAGES[title]()
    missing = [f"{place}: {text}" for text, place in messages.items() if not any(phrase in text for phrase in words)]
    assert not missing, "\n".join(missing)
    assert [phrase for phrase in words if not any(phrase in text for text in messages)] == []


@pytest.mark.parametrize("title", MESSAGES)
def test_the_words_tell_messages_apart(title: str) -> None:
    words, messages = phrases(title), MESSAGES[title]()
    for phrase in words:
        assert own_words(phrase) >= WORDS, phrase
        assert sum(phrase in text for text in messages) <= SIMILAR, phrase
    assert len({*words}) == len(words)


@pytest.mark.parametrize("title", MESSAGES)
def test_a_search_finds_every_message(title: str) -> None:
    """Broken by words on the page in which no search for two words of the message hits: take one more of them."""
    words = phrases(title)
    missed = [
        text
        for text in MESSAGES[title]()
        if not any(pair in phrase for pair in searches(text) for phrase in words if phrase in text)
    ]
    assert not missed, "\n".join(missed)
