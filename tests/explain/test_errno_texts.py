"""Errnos in the languages of glibc: each text reaches the errno, through the sieve."""

import io

import pytest

from rdmadiag.explain.log.line.errno_texts import TABLE, in_english
from rdmadiag.explain.log.recognition.vocabulary import ABROAD, NEEDLES, is_abroad
from rdmadiag.explain.log.scan import collect
from rdmadiag.sieve.lines import Sieve

with open(TABLE, encoding="utf-8") as _table:
    ROWS = [line.rstrip("\n").split("\t") for line in _table if not line.startswith("#")]

_SIEVE = Sieve(NEEDLES)


def test_each_text_has_a_word_that_is_looked_for() -> None:
    assert [text for _, _, text in ROWS if not is_abroad(text.encode())] == []


def test_each_word_is_needed() -> None:
    low = [text.encode().lower() for _, _, text in ROWS]
    assert [word for word in ABROAD if not any(word.encode() in each for each in low)] == []


@pytest.mark.parametrize(
    ("line", "errno", "label"),
    [
        ("ibv_create_qp: Nicht genügend Hauptspeicher verfügbar", "ENOMEM", "memlock"),
        ("rdma_connect: Verbindungsaufbau abgelehnt", "ECONNREFUSED", "peer-not-listening"),
        ("Call to ibv_reg_mr failed with error Ne peut allouer de la mémoire", "ENOMEM", "memlock"),
        ("rdma_connect: Conexión rehusada", "ECONNREFUSED", "peer-not-listening"),
        ("ibv_modify_qp to RTR: Connessione scaduta", "ETIMEDOUT", "peer-unreachable"),
        ("ibv_create_qp: Não foi possível alocar memória", "ENOMEM", "memlock"),
        ("ibv_open_device failed: 許可がありません", "EACCES", "uverbs-node-not-openable"),
        ("Call to ibv_modify_qp failed with error 连接超时", "ETIMEDOUT", "peer-unreachable"),
        ("rdma_connect: 연결이 거부됨", "ECONNREFUSED", "peer-not-listening"),
        ("rdma_connect: Время ожидания соединения истекло", "ETIMEDOUT", "peer-unreachable"),
        ("rdma_connect: Połączenie odrzucone", "ECONNREFUSED", "peer-not-listening"),
    ],
)
def test_a_call_that_failed_in_another_language(line: str, errno: str, label: str) -> None:
    collector = collect(_SIEVE.segments(io.BytesIO(f"{line}\n".encode())))
    first = collector.account(_SIEVE.lines, _SIEVE.bytes).first
    assert first is not None
    assert first.errno is not None
    assert (first.errno.name, first.causes[0].label) == (errno, label)
    assert first.text.startswith(line)


def test_english_and_what_is_no_errno_stay_as_they_are() -> None:
    for text in ("ibv_create_qp: Invalid argument", "die Verbindung steht", "接続しました"):
        assert in_english(text) == text
