"""Settings: four sources, one value, and refusals that name the source."""

import ast
import re
from pathlib import Path

import msgspec
import pytest
import typer

import steersman.operator
from steersman.cli.app import app
from steersman.cli.run.options import run_parser
from steersman.operator.settings import (
    SETTINGS,
    Address,
    Settings,
    SettingsError,
    load_settings,
    parse_address,
    parse_duration,
)
from steersman.operator.settings.declaration import declared


def write(path, text):
    path.write_text(text)
    return path


def test_without_any_source_the_defaults_hold():
    assert load_settings() == Settings()


def test_servers_listen_on_loopback_unless_told_otherwise():
    for text in (Settings().metrics_bind_address, Settings().health_probe_bind_address):
        address = parse_address(text)
        assert address is not None
        assert address.host == "127.0.0.1"


def test_flags_beat_the_environment_which_beats_the_file_which_beats_the_defaults(tmp_path):
    file = write(tmp_path / "s.toml", 'workers = 1\nlog-level = "error"\nlease-name = "from-file"\n')
    environ = {"STEERSMAN_WORKERS": "2", "STEERSMAN_LOG_LEVEL": "warning"}
    settings = load_settings({"workers": 3, "log_level": None}, environ, file)
    assert (settings.workers, settings.log_level, settings.lease_name) == (3, "warning", "from-file")


def test_a_yaml_file_says_the_same_as_a_toml_file(tmp_path):
    toml = write(tmp_path / "s.toml", 'namespaces = ["a", "b"]\nlease_duration = "30s"\nleader-elect = false\n')
    yaml = write(tmp_path / "s.yaml", "namespaces: [a, b]\nlease-duration: 30\nleader_elect: false\n")
    assert load_settings(file=toml) == load_settings(file=yaml)


def test_the_environment_may_name_the_file(tmp_path):
    file = write(tmp_path / "s.yaml", "workers: 4\n")
    assert load_settings(environ={"STEERSMAN_CONFIG": str(file)}).workers == 4


def test_lists_in_the_environment_are_separated_by_commas():
    assert load_settings(environ={"STEERSMAN_NAMESPACES": "a, b,"}).namespaces == ("a", "b")


def test_an_empty_file_is_no_setting(tmp_path):
    assert load_settings(file=write(tmp_path / "s.yaml", "")) == Settings()


def test_a_flag_that_chooses_namespaces_replaces_a_weaker_sources_selector():
    settings = load_settings({"namespaces": ("a",)}, {"STEERSMAN_NAMESPACE_SELECTOR": "team=x"})
    assert (settings.namespaces, settings.namespace_selector) == (("a",), None)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"STEERSMAN_WORKERS": "many"}, r"environment STEERSMAN_WORKERS='many': Expected `int \| null`"),
        ({"STEERSMAN_WORKERS": "0"}, "workers=0: at least 1"),
        ({"STEERSMAN_LEADER_ELECT": "perhaps"}, "STEERSMAN_LEADER_ELECT='perhaps': expected true or false"),
        ({"STEERSMAN_LOG_LEVEL": "loud"}, "environment STEERSMAN_LOG_LEVEL='loud'"),
        ({"STEERSMAN_LEASE_DURATION": "soon"}, "'soon' is not a duration: write seconds"),
        ({"STEERSMAN_WORKRES": "1"}, "did you mean STEERSMAN_WORKERS?"),
        ({"STEERSMAN_METRICS_BIND_ADDRESS": "8080"}, "--metrics-bind-address: '8080' is not an address: write"),
        ({"STEERSMAN_RENEW_DEADLINE": "20"}, "leader election: renew deadline 20 s: must be shorter"),
        ({"STEERSMAN_NAMESPACES": "a", "STEERSMAN_NAMESPACE_SELECTOR": "b=c"}, "give one of them"),
        ({"STEERSMAN_SERVER": "http://x", "STEERSMAN_CONTEXT": "c"}, "a plain server URL or a kubeconfig"),
        ({"STEERSMAN_IMPERSONATE_GROUPS": "admins"}, "together with a user"),
        ({"STEERSMAN_SHUTDOWN_GRACE": "-1"}, "'-1' is not a duration"),
        ({"STEERSMAN_CONFIG": "/nowhere/s.toml"}, "settings file /nowhere/s.toml: No such file or directory"),
    ],
)
def test_a_wrong_value_is_refused_with_its_source(environ, message):
    with pytest.raises(SettingsError, match=message):
        load_settings(environ=environ)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.toml", "worker = 1", r"there is no setting 'worker'; did you mean workers\?"),
        ("s.toml", "workers = [", r"s\.toml: "),
        ("s.yaml", "workers: [", r"s\.yaml: "),
        ("s.yaml", "- a\n- b", "expected keys and values, found list"),
        ("s.yaml", "workers: x", r"s\.yaml: workers='x'"),
        ("s.ini", "x", "ends in .toml"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_key(tmp_path, name, text, message):
    with pytest.raises(SettingsError, match=message):
        load_settings(file=write(tmp_path / name, text))


def test_variables_of_other_parts_with_the_same_prefix_are_left_alone():
    assert load_settings(environ={"STEERSMAN_CONTROLPLANE": "/x", "STEERSMAN_ZZZ_OF_THE_OPERATOR": "1"}) == Settings()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080)),
        (":8443", Address("", 8443)),
        ("[::1]:9", Address("::1", 9)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "host:", "host:70000", "::1:80", "http://x:80"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is not an address"):
        parse_address(text)


@pytest.mark.parametrize(("text", "seconds"), [("15", 15), ("2.5", 2.5), ("1m30s", 90), ("250ms", 0.25), ("1h", 3600)])
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


def test_every_setting_is_an_option_of_run():
    options = options_of_run()
    for setting in SETTINGS.values():
        assert setting.option in options, setting.name
        assert setting.is_switch == (f"--no-{setting.option.removeprefix('--')}" in options), setting.name


def test_shells_complete_every_option_of_run():
    completed = {option for option in options_of(typer.main.get_command(app).commands["run"]) if option[0] == "-"}
    assert completed | {"-h", "--help"} == options_of_run()


def options_of_run():
    return {option for action in run_parser().options() for option in action.option_strings}


def options_of(command):
    """All options of a command and its subcommands."""
    found = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return found.union(*(options_of(one) for one in getattr(command, "commands", {}).values()))


def options_in_messages(path):
    """The options that the text constants of a module name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"(?<![\w-])--[a-z][a-z-]+", node.value)


def test_messages_name_only_options_that_exist():
    known = options_of(typer.main.get_command(app)) | options_of_run()
    root = Path(steersman.operator.__file__).parent.parent
    named = {
        (option, path.name)
        for package in ("operator", "webhook", "client", "cache", "controller")
        for path in (root / package).rglob("*.py")
        for option in options_in_messages(path)
    }
    assert {"--webhook-url", "--metrics-cert-dir"} <= {option for option, _ in named}
    assert not [found for found in named if found[0] not in known]


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({"sync_timeout": -1}, "--sync-timeout"),
        ({"liveness_stall": -1}, "--liveness-stall"),
        ({"webhook_cert_life": -1}, "--webhook-cert-life"),
        ({"webhook_cert_settle": -1}, "--webhook-cert-settle"),
        ({"pod_uid": "mine"}, "--pod-uid"),
        ({"server": "http://x", "context": "c"}, "--server"),
        ({"impersonate_groups": ("a",)}, "--as-group"),
    ],
)
def test_an_error_names_the_option_to_change(wrong, option):
    with pytest.raises(SettingsError, match=f"^{option}[=:]"):
        Settings(**wrong).check()


def test_a_field_without_a_declaration_is_refused():
    class Incomplete(msgspec.Struct, frozen=True):
        workers: int = 1

    with pytest.raises(TypeError, match=r"Incomplete.workers: annotate it with one Setting"):
        declared(Incomplete)
