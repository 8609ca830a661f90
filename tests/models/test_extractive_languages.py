"""Summaries of threads in other languages: where they begin, what they leave out, what was decided."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from onward.models.extractive_summarizer import ExtractiveSummarizer
from onward.models.protocol import Passage

NEXT_MESSAGE = "=====\n"


class Thread(NamedTuple):
    language: str
    subject: str
    messages: str
    gist: str
    decision: str
    unwanted: tuple[str, ...]


GERMAN = Thread(
    "de",
    "Importer: Speicherbedarf",
    """\
Hallo zusammen,

der Importer liest seit Version 2.4 das ganze Archiv in den Speicher, bevor er etwas
schreibt. Auf dem Server Nr. 5 wurde er deshalb am 3. Mai vom System beendet, d.h. die Daten fehlen.
Ich schlage vor, das Archiv Nachricht für Nachricht zu lesen, z. B. mit einem Generator.

Was meint ihr dazu?

Viele Grüße
Jörg
Leiter der Abteilung für Datenhaltung und alles, was dazugehört
=====
Hallo Jörg,

das macht den Importer bei kleinen Archiven langsamer, bzw. Dr. Müller hat es gemessen.
Können wir beides an einem echten Archiv messen?

Mit freundlichen Grüßen
Anna
=====
Ich habe gemessen: Bei kleinen Archiven ist der Importer gleich schnell, bei großen braucht er 40
MB.

Gruß, Jörg
=====
Vielen Dank für die Messung!

Wir haben uns daher darauf geeinigt, das Archiv Nachricht für Nachricht zu lesen.

MfG
Dieter
=====
Super, danke!
""",
    "Ich schlage vor, das Archiv Nachricht für Nachricht zu lesen, z. B. mit einem Generator.",
    "Wir haben uns daher darauf geeinigt, das Archiv Nachricht für Nachricht zu lesen.",
    ("Hallo", "Grüße", "Leiter", "Dank", "MfG"),
)
FRENCH = Thread(
    "fr",
    "Importateur : mémoire",
    """\
Bonjour à tous,

l’importateur lit toute l’archive en mémoire avant d’écrire quoi que ce soit. M. Dupont
l’a vu échouer sur une archive de 2 Go, p. ex. celle de mai. Je propose de la lire message par
message.

Qu’en pensez-vous ?

Bien cordialement,
Élodie Martin
Responsable du service des archives et du reste
=====
Bonjour Élodie,

lire message par message rend l’importateur plus lent sur les petites archives. Peut-on mesurer les
deux d’abord ?

Cordialement,
Luc
=====
J’ai mesuré : l’importateur prend le même temps sur les petites archives, et 40 Mo sur les grandes.
=====
Merci beaucoup !

Nous avons donc décidé de lire l’archive message par message.

À bientôt,
Luc
""",
    "l’importateur lit toute l’archive en mémoire avant d’écrire quoi que ce soit.",
    "Nous avons donc décidé de lire l’archive message par message.",
    ("Bonjour", "ordialement", "Responsable", "Merci", "pensez"),
)
SPANISH = Thread(
    "es",
    "Importador: memoria",
    """\
Hola a todos:

El importador lee todo el archivo en memoria antes de escribir nada. El Sr. García vio que falla con
archivos de 2 GB.
Propongo leer el archivo mensaje por mensaje. ¿Qué os parece?

Un saludo,
María
=====
Hola María,

leer mensaje por mensaje hace el importador más lento con archivos pequeños. ¿Podemos medir las dos
cosas primero?

Saludos,
Juan
=====
Lo he medido: el importador tarda lo mismo con archivos pequeños y usa 40 MB con los grandes.
=====
Muchas gracias por medirlo.

De acuerdo, hemos decidido leer el archivo mensaje por mensaje.

Un abrazo,
Juan
""",
    "El importador lee todo el archivo en memoria antes de escribir nada.",
    "De acuerdo, hemos decidido leer el archivo mensaje por mensaje.",
    ("Hola", "saludo", "gracias", "abrazo", "parece"),
)
JAPANESE = Thread(
    "ja",
    "取り込み処理のメモリ使用量",
    """\
皆さん、お疲れ様です。開発部の田中です。

取り込み処理は、何かを書き込む前にアーカイブ全体をメモリに
読み込みます。二ギガバイトのアーカイブでは、システムに停止されてしまいます。メッセージを一件
ずつ
読み込むことを提案します。「遅くなります。」という意見もあります。どう思いますか？

よろしくお願いいたします。
田中
=====
田中さん

お疲れ様です。佐藤です。一件ずつ読み込むと、小さなアーカイブでは処理が遅くなります。先に両方
を測定できますか？

佐藤
=====
測定しました。小さなアーカイブでは処理時間は同じで、大きなアーカイブでは四十メガバイトで済み
ます。
=====
ご確認ありがとうございます。

それでは、メッセージを一件ずつ読み込むことに決定しました。来週のリリースに入れます。

以上、よろしくお願いします。
鈴木
""",
    "取り込み処理は、何かを書き込む前にアーカイブ全体をメモリに読み込みます。",
    "それでは、メッセージを一件ずつ読み込むことに決定しました。",
    ("お疲れ", "開発部", "よろしく", "ありがとう", "田中さん"),
)
CHINESE = Thread(
    "zh",
    "导入程序的内存占用",
    """\
大家好，

导入程序在写入任何内容之前会把整个存档读入内存。在两千兆的存档上，它会被系统终止。我建议逐条
读取消息。大家觉得怎么样？

谢谢！
小王
=====
小王，你好！

逐条读取会让导入程序在小存档上变慢。我们能不能先在真实的存档上测量一下？

小李
=====
我测量过了：小存档的时间相同，大存档的内存从两千兆降到四十兆。
=====
感谢测量。

经过讨论，我们决定逐条读取消息。下周发布。

此致
敬礼
老张
""",
    "导入程序在写入任何内容之前会把整个存档读入内存。",
    "经过讨论，我们决定逐条读取消息。",
    ("大家好", "你好", "谢谢", "感谢", "敬礼"),
)


@pytest.mark.parametrize(
    "thread", (GERMAN, FRENCH, SPANISH, JAPANESE, CHINESE), ids=lambda thread: thread.language
)
def test_a_summary_leads_with_the_subject_and_has_the_decision(thread: Thread) -> None:
    passages = [
        Passage(f"m{number}", f"Author {number}", None, text, thread.language)
        for number, text in enumerate(thread.messages.split(NEXT_MESSAGE))
    ]
    written = ExtractiveSummarizer().summarize(thread.subject, passages)
    summary = written.markdown.partition("### Sources")[0]
    gist, decision, _, *said = [line for line in summary.splitlines() if line]
    assert gist == f"**{thread.gist}** [1]"
    assert decision == f"**Decision** (Author 3): {thread.decision} [2]"
    assert {"Author 1", "Author 2"} <= {line.partition(":")[0].strip("- *") for line in said}
    assert [word for word in thread.unwanted if word in summary] == []
