"""The text of the settings files."""

import gc
import json

from mysqlcluster.settings_text import settings_text

SETTINGS = {
    "member": "db-0",
    "serverSettings": {"max_connections": "100", "a": '"quoted" / \\ <b>'},
    "empty": {},
    "list": [],
    "archive": {"directory": "/archive/volume", "key": None, "number": 1, "on": True},
}


def test_the_text_is_json_with_sorted_keys_and_an_indent() -> None:
    assert settings_text(SETTINGS) == json.dumps(SETTINGS, sort_keys=True, indent=1)


def test_the_text_leaves_nothing_to_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        settings_text(SETTINGS)
        assert gc.collect() == 0
    finally:
        gc.enable()
