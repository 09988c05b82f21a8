"""The name in a certificate as Java writes it (`X500Principal.getName()`, RFC 2253), because ACLs use that form.

The most specific part comes first. Types other than the nine below come by number, with the DER of their value in
hexadecimal. Java escapes `#` and `=` anywhere in a value, where the RFC escapes only a `#` in front.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.security.tls.der import Attribute, DerError, RelativeName

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# Tags of the kinds of text: UTF8, Printable, T61, IA5, General, BMP. Java decodes all of them as UTF-8 and replaces
# wrong bytes, so that two names may become one. Here such a name is refused, and BMP is decoded as BMP.
_ENCODINGS = {0x0C: "utf-8", 0x13: "utf-8", 0x14: "utf-8", 0x16: "utf-8", 0x1B: "utf-8", 0x1E: "utf-16-be"}
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANK = " \r"


def format_name(name: Sequence[RelativeName]) -> str:
    """`CN=w1,OU=Ops,O=Acme\\, Inc,C=DE`. Raises DerError for a text that is not in its own encoding."""
    return ",".join("+".join(map(_format_attribute, relative)) for relative in reversed(name))


def _format_attribute(attribute: Attribute) -> str:
    keyword, encoding = _KEYWORDS.get(attribute.object_id), _ENCODINGS.get(attribute.value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or attribute.object_id}=#{attribute.value.whole.hex()}"
    try:
        return f"{keyword}={_escape(attribute.value.content.decode(encoding))}"
    except UnicodeDecodeError as error:
        raise DerError(f"the {keyword} of a certificate is not {encoding}: {error.reason}") from error


def _escape(text: str) -> str:
    escaped = "".join("\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    bare = escaped.lstrip(_BLANK)
    lead = len(escaped) - len(bare)
    trail = len(bare) - len(bare.rstrip(_BLANK))
    end = len(escaped) - trail
    marked = ("\\" + each for each in escaped[:lead])
    if lead == len(escaped):
        return "".join(marked)
    return "".join(marked) + escaped[lead:end] + "".join("\\" + each for each in escaped[end:])
