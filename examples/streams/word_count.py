"""How often each word occurs in the lines of a topic.

    penstock topics create lines
    penstock streams run examples/streams/word_count.py &
    echo 'to be or not to be' | penstock produce lines
    penstock consume word-counts --from beginning

The table can be asked for, too: penstock streams serve word-count, then penstock streams query word-count words to
"""

from __future__ import annotations

from penstock.streams import Streams, text

app = Streams("word-count")
words = app.stream("lines", value=text()).flat_map(r"split(lower(value), '[^\\p{L}\\p{N}]+')", into="word")
words.filter("word <> ''").group_by("word").count(name="words").to("word-counts")
