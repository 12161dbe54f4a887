"""The server of the live page, asked over HTTP."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import re
import shutil
import socket
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from tests.sweeps.stores_by_hand import begin, end, finish, games, plan, sweep_of, training, write_rows

from svrl.plots.learning import smoothed
from svrl.stats import mean_interval
from svrl.sweeps.live_page import curves, serve, server
from svrl.sweeps.status import look


@pytest.fixture
def specs() -> list[Any]:
    return [training(arm=arm, seed=seed) for arm in ("dqn", "sv-dqn") for seed in (0, 1)]


@pytest.fixture
def store(tmp_path, specs) -> Any:
    return sweep_of(tmp_path, specs)


@pytest.fixture
def page(store, monkeypatch) -> Any:
    monkeypatch.setattr(server, "REST", 0.0)
    with serve(store, "trial") as served:
        yield served


def ask(page: Any, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(urlsplit(page.address).netloc)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_it_listens_on_this_machine_only(page):
    assert page.address.startswith("http://127.0.0.1:")
    assert page.server.socket.getsockname()[0] == "127.0.0.1"


def test_the_page_is_one_file_whose_parts_the_policy_names(page):
    status, headers, body = ask(page, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>trial</h1>" in body
    assert not re.search(r"""(src|href)=["'](?!data:)""", body)
    for part in ("style", "script"):
        [text] = re.findall(rf"<{part}>(.*?)</{part}>", body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in headers["Content-Security-Policy"]
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert "unsafe" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/status.json", "/nothing"])
def test_every_answer_has_the_headers_that_protect_it(page, path):
    _, headers, _ = ask(page, path)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]


def test_status_is_the_overview_and_changes_with_the_store(page, store, specs):
    status, headers, body = ask(page, "/status.json")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    told = look(store, "trial").as_json()
    assert json.loads(body) == {name: value for name, value in told.items() if name != "time"}
    again, _, nothing = ask(page, "/status.json", If_None_Match=headers["ETag"])
    assert (again, nothing) == (304, "")
    finish(store, specs[0], 9.0)
    status, _, body = ask(page, "/status.json", If_None_Match=headers["ETag"])
    assert status == 200
    assert json.loads(body)["runs"][0]["score"] == 9.0


def test_head_says_the_same_without_a_body(page):
    _, headers, body = ask(page, "/")
    status, of_head, nothing = ask(page, "/", method="HEAD")
    assert (status, nothing) == (200, "")
    assert of_head["Content-Length"] == headers["Content-Length"] == str(len(body.encode()))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_nothing_can_be_changed(page, method):
    status, headers, body = ask(page, "/status.json", method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert body == "This page can only be read.\n"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "", "[x"])
def test_another_name_that_points_here_is_refused(page, host):
    status, _, body = ask(page, "/status.json", Host=host)
    assert (status, body) == (403, "This page answers to localhost only.\n")


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:9", "[::1]:9", "LOCALHOST"])
def test_own_names_are_answered_through_any_port(page, host):
    assert ask(page, "/status.json", Host=host)[0] == 200


def test_the_other_kind_of_address_is_this_machine_too(store):
    try:
        served = serve(store, "trial", host="::1")
    except ValueError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with served:
        assert served.address.startswith("http://[::1]:")
        assert ask(served, "/status.json")[0] == 200
        assert ask(served, "/status.json", Host="evil.example")[0] == 403


def test_a_page_for_other_machines_answers_to_any_name(store):
    with serve(store, "trial", host="0.0.0.0") as served:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(served.address).port)
        connection.request("GET", "/status.json", headers={"Host": "lab.example"})
        assert connection.getresponse().status == 200


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/../../etc/passwd", "/%2e%2e/spec.json", "/page.js", "/status.json/", "/sweeps/trial.json"],
)
def test_no_file_of_the_disk_is_served(page, path):
    assert ask(page, path)[0] == 404


def test_where_the_store_is_stays_unsaid(page, store, specs):
    (store.folder(specs[0].id) / "run").mkdir()
    (store.folder(specs[0].id) / "run" / "result.json").mkdir()  # cannot be read
    everything = "".join(ask(page, path)[2] for path in ("/", "/status.json", "/curves.json?subject=CartPole-v1"))
    assert "Its files cannot be read: Is a directory" in everything
    assert str(store.root) not in everything


def test_a_store_that_is_gone_is_told_and_may_come_back(page, store):
    shutil.move(store.root / "sweeps", store.root / "away")
    status, _, body = ask(page, "/status.json")
    assert (status, body) == (503, "The store cannot be read at the moment.\n")
    shutil.move(store.root / "away", store.root / "sweeps")
    assert ask(page, "/status.json")[0] == 200


def test_a_name_with_markup_is_escaped(tmp_path):
    store = sweep_of(tmp_path, [training()], name="<i>x")
    with serve(store, "<i>x") as served:
        body = ask(served, "/")[2]
    assert "<h1>&lt;i&gt;x</h1>" in body
    assert "<i>x" not in body


def test_curves_are_means_of_the_last_100_games_with_the_house_interval(page, store, specs):
    rng = np.random.default_rng(0)
    scores = {spec.id: rng.normal(20, 5, 150) for spec in specs[:2]}
    for spec in specs[:2]:
        begin(store, spec, scores[spec.id])
    status, _, body = ask(page, f"/curves.json?subject={quote('CartPole-v1')}")
    told = json.loads(body)
    assert status == 200
    [variant] = told["variants"]
    assert variant["name"] == "dqn"
    for run in variant["runs"]:
        oracle = smoothed(scores[run["id"]])
        assert len(run["points"]) <= curves.POINTS
        assert [run["points"][0][0], run["points"][-1][0]] == [10, 1500]
        for x, y in run["points"]:
            assert y == pytest.approx(oracle[int(x) // 10 - 1], rel=1e-4)
    x, mean, low, high = variant["mean"][-1]
    last = [smoothed(scores[spec.id])[-1] for spec in specs[:2]]
    assert x == 1500
    assert mean == pytest.approx(np.mean(last), rel=1e-4)
    assert (low, high) == pytest.approx(mean_interval(last), rel=1e-4)


def test_the_mean_ends_where_a_run_has_got_to_and_leaves_failed_ones_out(page, store, specs):
    begin(store, specs[2], [1.0] * 100)
    begin(store, specs[3], [3.0] * 40)
    variant = json.loads(ask(page, "/curves.json?subject=CartPole-v1")[2])["variants"][0]
    assert (variant["mean"][-1][0], variant["mean"][-1][1]) == (400, 2.0)
    end(store, specs[3].id, "failed", reason="no")
    variant = json.loads(ask(page, "/curves.json?subject=CartPole-v1")[2])["variants"][0]
    assert variant["mean"] == []
    assert [run["state"] for run in variant["runs"]] == ["stopped", "failed"]
    write_rows(store, specs[2].id, "episodes.jsonl", games([5.0], after=1000))
    variant = json.loads(ask(page, "/curves.json?subject=CartPole-v1")[2])["variants"][0]
    assert variant["runs"][0]["points"][-1][0] == 1010


def test_curves_of_an_unknown_subject_are_not_found(page):
    assert ask(page, "/curves.json?subject=Pong")[0] == 404
    assert ask(page, "/curves.json")[0] == 404


def test_plans_have_curves_of_their_error(tmp_path):
    spec = plan()
    store = sweep_of(tmp_path, [spec])
    finish(store, spec, 0.1)
    rows = [{"iteration": at, "error": 8.0 / 2**at, "residual": 1.0} for at in range(1, 5)]
    write_rows(store, spec.id, "rows.jsonl", [*rows, {"iteration": 5, "error": None, "residual": 0.125}])
    with serve(store, "trial") as served:
        told = json.loads(ask(served, "/curves.json?subject=toy")[2])
    assert (told["log"], told["x"]) == (True, "iteration")
    assert told["variants"][0]["runs"][0]["points"] == [[1, 4], [2, 2], [3, 1], [4, 0.5], [5, 0.125]]


def test_long_answers_are_packed_for_those_who_understand(page):
    _, plain, body = ask(page, "/")
    connection = http.client.HTTPConnection(urlsplit(page.address).netloc)
    connection.request("GET", "/", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    packed = answer.read()
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed).decode() == body
    assert len(packed) < 0.5 * len(body)
    assert answer.headers["ETag"] == plain["ETag"]
    assert "Content-Encoding" not in plain


def test_a_browser_that_goes_away_or_stays_silent_does_no_harm(page, capfd):
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", urlsplit(page.address).port)) as rude:
            rude.sendall(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    assert ask(page, "/status.json")[0] == 200
    assert capfd.readouterr().err == ""


def test_many_pages_share_a_look(store, specs, monkeypatch):
    monkeypatch.setattr(server, "REST", 3600.0)
    with serve(store, "trial") as served:
        first = ask(served, "/status.json")[2]
        finish(store, specs[0], 1.0)
        assert ask(served, "/status.json")[2] == first
        monkeypatch.setattr(server, "REST", 0.0)
        assert ask(served, "/status.json")[2] != first


def test_what_cannot_be_served_is_refused_in_a_sentence(store, page):
    with pytest.raises(ValueError, match="has no sweep 'other'"):
        serve(store, "other")
    port = urlsplit(page.address).port
    with pytest.raises(ValueError, match=rf"cannot listen on 127\.0\.0\.1 port {port}: .*Give another --port"):
        serve(store, "trial", port=port)
    with pytest.raises(ValueError, match=r"cannot listen on 127\.0\.0\.1 port 70000"):
        serve(store, "trial", port=70000)


def test_a_closed_page_answers_no_more(store):
    with serve(store, "trial") as served:
        kept = http.client.HTTPConnection(urlsplit(served.address).netloc)
        kept.request("GET", "/status.json")
        kept.getresponse().read()
    assert kept.sock.recv(1) == b""
    kept.close()
    with pytest.raises(ConnectionRefusedError):
        ask(served, "/")
    assert not served.thread.is_alive()
