"""Secrets in text: what has a key that says so, what is given to an option, what has a form.

--token=ghp_…, "password": "…", sshpass -p…, curl -u joe:…, mysql://joe:…@db7/x, eyJhbGci….eyJz…
"""

import re
from typing import Final

REMOVED: Final = "(removed)"
"""What stands for a secret."""

_LONG_KEY: Final = (
    r"(?:pass(?:word|wd|[ _-]?phrase|code)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|auth[_-]?key|session[_-]?(?:id|key)|account[_-]?key|credentials?|authorization|bearer)"
)
_KEY: Final = (
    rf"(?:{_LONG_KEY}|(?<![a-z])(?:pass|pw|pwd(?![\"']?\s?[=:]\s?/)|pin|psk|cookie|sig|signature"
    r"|auth)(?![a-z]))[\w-]{0,40}"
)
# Up to where another value begins: "password=a,b,user=c".
_VALUE: Final = (
    r"(?:\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'"
    r"|\\?[\"']?(?:[^\s\"',;&]|[,;&](?!\s|$|[\w.-]{1,40}[\"']?[=:]))+)"
)
_KEYED: Final = re.compile(
    rf"(?i)({_KEY}\\?[\"']?\s{{0,8}}[=:]\s{{0,8}}(?:(?:bearer|basic|digest)\s{{1,8}})?){_VALUE}"
)
_KEY_AND_WORD: Final = re.compile(
    rf"(?i)((?:--[\w-]{{0,40}}?{_LONG_KEY}[\w-]{{0,40}}|(?<![\w-])(?:{_LONG_KEY}|pwd(?=\s+is)|pin(?=\s+\d{{4,}})))"
    rf"\s{{1,8}}(?:(?:is|was|bearer|basic)\s{{1,8}})?)(?!-|\(removed\)){_VALUE}"
)
_CLIENT: Final = re.compile(
    # Programs whose -p, -w or -a is a password, next to it or after a space.
    r"(\b(?:sshpass|mysql\w*|mariadb[\w-]*|mongo\w*|psql|smbclient|redis-cli|ldap\w+|ipmitool"
    r"|docker login|podman login|sqlplus|plink|rclone|mosquitto_\w+)\b(?:\s[^\n|;&]{0,200}?)??\s"
    r"(?:-[PpWwa]))(?:\s(?!-)|(?=\S))(?!\d{1,5}(?!\S))(\S+)"
)
_OPTION: Final = re.compile(
    # -pTopSecret1, -p S3cret: not -p 2222, -p efa, -p /path, -parallel
    r"((?<!\S)-p)(\s?)(?![\d:.-]{1,12}(?!\S)|[/-])(?=[a-z]*[^\sa-z])(?=\S{4,})(\S+)"
)
_LOGIN_OPTION: Final = re.compile(
    # curl -u joe:secret, --user joe:secret, --proxy-user=joe:secret
    r"((?<!\S)(?:-u\s?|--[\w-]{0,20}user(?:name)?[ =])[\"']?[^\s:\"']{1,64}:)([^\s\"'/]+)"
)
_IN_URL: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:]{0,64}:)([^\s/@]{1,200})(?=@)"
)
_BLOCK: Final = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).{0,20000}?(-----END [A-Z ]{0,40}-----|\Z)",
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"eyJ[\w-]{4,}\.[\w-]+(?:\.[\w-]*){0,3}"  # JWT, RFC 7519
    r"|(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{12,}"
    r"|gh[a-z]_\w{10,}|github_pat_\w{10,}|gl[a-z]{2,5}-[\w-]{16,}"
    r"|xox[a-z]-[\w-]+|xapp-[\w-]{8,}"
    r"|[a-z]{2,12}_(?:live|test|pat|key|secret|token)_[\w-]{8,}"
    r"|(?:sk|rk|pk|dop|hf|npm|pypi|glsa|nvapi|pat|hvs|hvb|ya29|tskey|lin_api|dapi|wandb)"
    r"[-_.][\w.-]{16,}"
    r"|AIza[\w-]{20,}|SG\.[\w-]{8,}\.[\w-]{8,}|AGE-SECRET-KEY-\w+"
    r"|AAAA[BEC][0-9A-Za-z+/]{20,}={0,2}"  # a key in OpenSSH's form
    r"|https://hooks\.slack\.com/\S+"
    r")(?![A-Za-z0-9])"
)
_CRYPT: Final = re.compile(r"\$(?:[0-9]|2[abxy]|y|gy|apr1|argon2\w*|pbkdf2[\w-]*)\$[\w./$=,+-]{8,}")

_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}")
_MODALIAS: Final = re.compile(r"v[0-9A-F]{8}d[0-9A-F]{8}sv|[bv][0-9A-F]{4}v[0-9A-F]{4}p")
_MADE: Final = re.compile(r"(?<![a-z])[a-z]+-[a-z2-7]{8}(?![a-z0-9])")
_CLASSES: Final = re.compile(r"[A-Z]+|[a-z]+|[0-9]+")
_LEAST: Final = 20
_MIXED: Final = 0.45  # of 19 places between random letters and digits, 12 are between two classes
_MIXED_LOW: Final = 0.3  # of letters of one kind and digits: 8 of 19
_HEX: Final = re.compile(r"(?:0[xX])?[0-9A-Fa-f]+")


def without_secrets(text: str) -> str:
    """The same text with REMOVED for each."""
    text = _BLOCK.sub(rf"\1{REMOVED}\2", text)
    text = _TOKEN.sub(REMOVED, text)
    text = _CRYPT.sub(REMOVED, text)
    text = _IN_URL.sub(rf"\1{REMOVED}", text)
    text = _KEYED.sub(rf"\1{REMOVED}", text)
    text = _CLIENT.sub(rf"\1 {REMOVED}", text)
    text = _KEY_AND_WORD.sub(rf"\1{REMOVED}", text)
    text = _LOGIN_OPTION.sub(rf"\1{REMOVED}", text)
    return _OPTION.sub(rf"\1 {REMOVED}", text)


def without_random(text: str) -> str:
    """The last net: words of random letters and digits, which no name of a kernel is."""
    return _RUN.sub(lambda found: REMOVED if _is_random(found[0]) else found[0], text)


def _is_random(word: str) -> bool:
    """Whether letters and digits change places as often as where each is drawn by chance.

    Not mlx5_ib_alloc_transport_domain, IOThunderboltSwitchType5, 0x0c42a10300243f0e.
    """
    if _MADE.search(word) or _MODALIAS.search(word):
        return False
    if "/" in word and not word.endswith("="):  # a path, but for base64
        return any(len(part) >= _LEAST and _is_random(part) for part in word.split("/"))
    plain = re.sub(r"[^A-Za-z0-9]", "", word)
    if len(plain) < _LEAST or _HEX.fullmatch(plain):
        return False
    runs = _CLASSES.findall(plain)
    digits = sum(each.isdigit() for each in runs)
    mixed = (len(runs) - 1) / (len(plain) - 1)
    if plain.isalpha():
        return False
    if plain.lower() != plain and plain.upper() != plain:
        return digits > 1 and mixed >= _MIXED
    return plain == word and digits > 2 and mixed >= _MIXED_LOW
