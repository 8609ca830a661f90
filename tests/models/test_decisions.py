"""Which sentences say how a thread ended."""

from __future__ import annotations

import pytest

from onward.models.decisions import Outcome, find_outcome


@pytest.mark.parametrize(
    "sentence",
    (
        "We decided to read the archive message by message.",
        "In the end we've all agreed to wait for the release.",
        "It was decided to move the meeting.",
        "The consensus is that the old format goes away.",
        "Decision: the harbour is closed in winter.",
        "We finally have an agreement on the name.",
        "Then we have a decision: the prism gets a brass clamp.",
        "Nobody objected, so that is decided.",
        "The meeting has decided this evening: the data are free.",
        "Agreed by all who spoke: a warm lamp, fixed.",
        "Let us agree on this: the signal is sounded once a year.",
        "Wir haben uns darauf geeinigt, den Hafen im Winter zu schließen.",
        "Beschluss: Der Hafen bleibt im Winter zu.",
        "Auf der Sitzung wurde am 3. Mai beschlossen, den Pegel zu ersetzen.",
        "Nous avons finalement décidé de fermer le port.",
        "Il a été convenu de remplacer la jauge.",
        "Décision : le port reste fermé.",
        "Hemos decidido cerrar el puerto en invierno.",
        "Al final acordamos cambiar el sensor.",
        "Abbiamo deciso di chiudere il porto.",
        "Ficou decidido fechar o porto.",
        "We hebben besloten de haven te sluiten.",
        "メッセージを一件ずつ読み込むことに決定しました。",
        "冬の間は港を閉めることにしました。",
        "经过讨论，我们决定逐条读取消息。",
        "大家一致同意更换传感器。",
        "겨울에는 항구를 닫기로 결정했습니다.",
    ),
)
def test_a_decision_is_one_wherever_it_stands(sentence: str) -> None:
    assert find_outcome(sentence) is Outcome.DECISION


@pytest.mark.parametrize(
    "sentence",
    (
        *("Applied.", "Queued, thanks.", "Will merge to 'next'.", "Merged into main.", "Closing as a duplicate."),
        "Comment added, applied, and pushed.",
        "Done: the heading has the reference.",
        "Let's go with the second option.",
        "OK, let's use the tide gauge of the harbour.",
        "So I'll drop the patch for now.",
        "I have applied the change to the importer.",
        "Let's read message by message then; I applied the change.",
        "It is fixed in v2.40, by the way.",
        "The bug is fixed now.",
        "This has been merged.",
        "That fixed it.",
        "The second option is the way to go.",
        "Ich habe den Patch übernommen.",
        "Der Fehler ist seit gestern behoben.",
        "Erledigt.",
        "Gut, so machen wir das.",
        "J'ai appliqué la correction.",
        "Allons-y avec la deuxième option.",
        "Corrigé dans la version 2.4.",
        "He aplicado el parche.",
        "Vamos con la segunda opción.",
        "Corregido en la versión 2.4.",
        "修正をマージしました。",
        "二番目の案で進めます。",
        "这个问题已经修复。",
        "那就采用第二个方案。",
        "수정 사항을 병합했습니다.",
    ),
)
def test_what_is_done_about_a_message_is_an_outcome(sentence: str) -> None:
    assert find_outcome(sentence) is Outcome.ACTION


@pytest.mark.parametrize(
    "sentence",
    (
        "Have we decided that?",
        "We have not decided yet.",
        "If we decided that, it would be late.",
        "Once it has been merged, we can start.",
        "This is not fixed in v2.40.",
        "It should be applied to both branches.",
        "Applied patches are shown in green.",
        "The patch I queued yesterday wraps this.",
        "I'll take a look at it tomorrow.",
        "I'll keep that in mind for the next time.",
        "Let's see what the others think.",
        "The importer reads the whole archive.",
        "Wir haben uns noch nicht geeinigt.",
        "Ist das schon behoben?",
        "Nous n'avons pas décidé.",
        "¿Hemos decidido algo?",
        "No hemos decidido nada.",
        "まだ修正していません。",
        "決定しましたか？",
        "我们还没有决定。",
        "已经修复了吗？",
    ),
)
def test_questions_conditions_and_what_is_not_done_are_no_outcome(sentence: str) -> None:
    assert find_outcome(sentence) is Outcome.NONE
