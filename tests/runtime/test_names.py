from __future__ import annotations

import dataclasses

import pytest

from svrl.agents.config import FIELD_ALIASES, AgentConfig
from svrl.runtime.names import nearest_name

FIELDS = {entry.name for entry in dataclasses.fields(AgentConfig)}


def test_a_near_name_is_offered_and_otherwise_all_of_them():
    assert nearest_name("breakot", ["freeway", "breakout"]) == "Did you mean breakout?"
    assert nearest_name("zzz", ["b", "a"]) == "Choose one of a, b."
    assert nearest_name("zzz", ["b", "a"], otherwise="It has") == "It has a, b."


def test_what_others_call_it_comes_first_where_it_is_known():
    assert nearest_name("lr", ["lo", "learning_rate"], synonyms=FIELD_ALIASES) == "Did you mean learning_rate?"
    assert nearest_name("lr", ["lo", "states"], synonyms=FIELD_ALIASES) == "Did you mean lo?"


def test_foreign_names_stand_for_fields_and_are_none():
    assert set(FIELD_ALIASES.values()) <= FIELDS
    assert not set(FIELD_ALIASES) & FIELDS


def test_an_agent_is_answered_in_our_words():
    for name, meant in FIELD_ALIASES.items():
        with pytest.raises(ValueError, match=rf"^AgentConfig has no field '{name}'\. Did you mean {meant}\?$"):
            AgentConfig.of("classic", **{name: 1})
