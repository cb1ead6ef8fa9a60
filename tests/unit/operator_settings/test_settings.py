"""Settings out of a file and the environment, and every mistake in them as one line."""

from pathlib import Path
from typing import Any

import pytest

from specloop_control.credentials import BasicAuth
from specloop_control.prometheus_server import PrometheusSettings
from specloop_operator.settings import OperatorSettings, SettingsError, load_settings
from specloop_operator.source_settings import PodsSettings, PrometheusSourceSettings


def loaded(folder: Path, text: str, **environment: str) -> OperatorSettings:
    """The settings of a file with this text."""
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, environment)


def mistake(folder: Path, text: str, **environment: str) -> str:
    """What is said of a file with this text, after its name."""
    with pytest.raises(SettingsError) as caught:
        loaded(folder, text, **environment)
    line = str(caught.value)
    assert "\n" not in line
    return line.removeprefix(f"{folder / 'settings.yaml'}: ")


NOTHING = ("", "# nothing yet\n", "sources:\nnamespaces:\n", "sources: {}\nnamespaces: []\n")


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_configured_is_the_pods_of_every_namespace_one_roll_out_at_a_time(tmp_path: Path, text: str) -> None:
    settings = loaded(tmp_path, text)
    assert settings == load_settings(None, {})
    assert settings.sources == {"default": PodsSettings(type="pods")}
    assert settings.namespaces == ()
    assert settings.max_concurrent_rollouts == 1
    assert (settings.log_format, settings.log_level) == ("json", "info")
    assert settings.health_port == 8080


def test_sources_are_pods_or_a_prometheus_by_name(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        """
sources:
  direct: {type: pods, scheme: https, caFile: /ca.pem, timeoutSeconds: 2}
  main:
    type: prometheus
    url: https://prometheus:9090
    timeoutSeconds: 20
    lagSeconds: 5
    prefix: "kserve_vllm:"
    namespaceLabel: exported_namespace
    podLabel: exported_pod
    matchers: ['cluster="west"']
    basicAuth: {username: specloop, passwordFile: /password}
    certFile: /cert.pem
    keyFile: /key.pem
    caFile: /ca.pem
    headers: {X-Team: ml}
    tenant: llm
""",
    )
    direct, main = settings.sources["direct"], settings.sources["main"]
    assert direct == PodsSettings(type="pods", scheme="https", ca_file="/ca.pem", timeout_seconds=2.0)
    assert isinstance(main, PrometheusSourceSettings)
    assert main.server() == PrometheusSettings(
        "https://prometheus:9090",
        prefix="kserve_vllm:",
        namespace_label="exported_namespace",
        pod_label="exported_pod",
        matchers=('cluster="west"',),
        timeout_seconds=20.0,
        lag_seconds=5.0,
        basic_auth=BasicAuth(Path("/password"), "specloop"),
        cert_file=Path("/cert.pem"),
        key_file=Path("/key.pem"),
        ca_file=Path("/ca.pem"),
        headers={"X-Team": "ml"},
        tenant="llm",
    )


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "healthPort: 9000\nlogLevel: debug\nnamespaces: [a]\nmaxConcurrentRollouts: 4\n",
        SPECLOOP_HEALTH_PORT="9001",
        SPECLOOP_NAMESPACES="[b, c]",
        SPECLOOP_SOURCES="{main: {type: prometheus, url: 'http://prometheus:9090'}}",
        SPECLOOP_LOG_LEVEL="",
    )
    assert (settings.health_port, settings.namespaces, list(settings.sources)) == (9001, ("b", "c"), ["main"])
    assert (settings.log_level, settings.max_concurrent_rollouts) == ("debug", 4)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.1"])
def test_a_text_in_the_environment_is_taken_as_it_is(address: str) -> None:
    assert load_settings(None, {"SPECLOOP_HEALTH_ADDRESS": address}).health_address == address


def test_variables_that_kubernetes_makes_of_a_service_are_passed_over() -> None:
    """Of a Service that is called specloop."""
    environment = {"SPECLOOP_SERVICE_HOST": "10.96.0.1", "SPECLOOP_PORT": "tcp://10.96.0.1:80"}
    assert load_settings(None, environment) == load_settings(None, {})


PROMETHEUS = "sources: {main: {type: prometheus, url: 'http://prometheus:9090', %s}}"

MISTAKES: dict[str, tuple[str, str]] = {
    "no YAML": ("sources: [", "line 1: expected the node content, but found '<stream end>'; mend the YAML"),
    "a list": ("- a", "must be a mapping of fields, such as logLevel: info"),
    "a field twice": ("logLevel: info\nlogLevel: debug", "line 2: logLevel is given twice; mend the YAML"),
    "another field": ("loglevel: info", "loglevel: unknown field; fields here: sources, namespaces, maxConcurrent"),
    "a number as text": ("healthPort: '8080'", "healthPort: must be a whole number"),
    "half a port": ("healthPort: 80.5", "healthPort: must be a whole number"),
    "a large number": ("healthPort: 99999", "healthPort: must be less than or equal to 65535"),
    "another word": ("logFormat: xml", "logFormat: must be 'json' or 'text'"),
    "a text for a list": ("namespaces: llm", "namespaces: must be a list, such as [llm, chat]"),
    "a number in a list": ("namespaces: [1]", "namespaces.0: must be a text; put it in quotes"),
    "a namespace that is none": ("namespaces: ['a\"b']", "namespaces.0: is no name: lower-case letters, digits"),
    "a source of no type": ("sources: {main: {}}", "sources.main.type: is missing; give pods or prometheus"),
    "a source of another type": ("sources: {main: {type: x}}", "sources.main.type: must be pods or prometheus"),
    "a source that is none": ("sources: {main: http}", "sources.main: must be a mapping of fields"),
    "a name that is none": ("sources: {My_own: {type: pods}}", "sources.My_own: is no name: lower-case letters"),
    "no address": ("sources: {main: {type: prometheus}}", "sources.main.url: is missing; add it"),
    "another address": (
        "sources: {main: {type: prometheus, url: 'prometheus:9090'}}",
        "sources.main.url: 'prometheus:9090' is none of a Prometheus: give one such as http://host:9090",
    ),
    "a password in the address": (
        "sources: {main: {type: prometheus, url: 'http://me:secret@prometheus:9090'}}",
        "sources.main.url: holds a password, which must not stand here; give basicAuth",
    ),
    "an unknown field of a source": (PROMETHEUS % "token: x", "sources.main.token: unknown field; fields here: type"),
    "an unknown field of a password": (
        PROMETHEUS % "basicAuth: {user: me, passwordFile: /p}",
        "sources.main.basicAuth.user: unknown field; fields here: username, usernameFile, passwordFile",
    ),
    "a matcher that is none": (PROMETHEUS % "matchers: [west]", "sources.main.matchers: 'west' is no matcher"),
    "a secret header": (PROMETHEUS % "headers: {Cookie: x}", "sources.main.headers: the header Cookie holds a secret"),
    "a label that is none": (PROMETHEUS % "podLabel: my-pod", "sources.main.podLabel: 'my-pod' is no name of a label"),
    "a password without a user": (
        PROMETHEUS % "basicAuth: {passwordFile: /p}",
        "sources.main.basicAuth: needs exactly one of username and usernameFile",
    ),
    "two secrets": (
        PROMETHEUS % "tokenFile: /t, basicAuth: {username: me, passwordFile: /p}",
        "sources.main: tokenFile and basicAuth: a query carries one of them; remove the other",
    ),
    "a key alone": (PROMETHEUS % "keyFile: /k", "sources.main: keyFile is the key of a certificate; add certFile"),
    "certificates without https": (
        "sources: {a: {type: pods, caFile: /c}}",
        "sources.a: caFile is for https; add scheme: https, or remove it",
    ),
    "certificates that do not matter": (
        "sources: {a: {type: pods, scheme: https, caFile: /c, insecureSkipVerify: true}}",
        "sources.a: insecureSkipVerify takes any certificate, whatever caFile says; remove one of them",
    ),
    "a path that is none": ("sources: {a: {type: pods, path: metrics}}", "sources.a.path: must begin with /"),
    "no time": ("sources: {a: {type: pods, timeoutSeconds: 0}}", "sources.a.timeoutSeconds: must be greater than 0"),
    "several": (
        "healthPort: 0\nmaxConcurrentRollouts: 0",
        "maxConcurrentRollouts: must be greater than or equal to 1; and 1 more",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_its_place_and_the_mend(tmp_path: Path, case: str) -> None:
    text, words = MISTAKES[case]
    assert mistake(tmp_path, text).startswith(words)


def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    assert mistake(tmp_path, "", SPECLOOP_HEALTH_PORT="tcp://10.96.0.1:80") == (
        "SPECLOOP_HEALTH_PORT: healthPort: must be a whole number"
    )
    assert mistake(tmp_path, "", SPECLOOP_NAMESPACES="[a").startswith("SPECLOOP_NAMESPACES: line 1: expected")


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml: cannot be read: .*; give the file with --config$"):
        load_settings(tmp_path / "none.yaml", {})


@pytest.mark.parametrize("secret", ["http://me:hunter2@prometheus:9090", "http://me:hunter2@"])
def test_a_mistake_never_shows_a_password(tmp_path: Path, secret: str) -> None:
    assert "hunter2" not in mistake(tmp_path, f"sources: {{main: {{type: prometheus, url: '{secret}'}}}}")


def test_settings_do_not_change(tmp_path: Path) -> None:
    settings: Any = load_settings(None, {})
    with pytest.raises(ValueError, match="frozen"):
        settings.health_port = 1
