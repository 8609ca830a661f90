"""Find the sentences that say how a thread ended: what was decided, agreed, applied, fixed or closed."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple


class Outcome(IntEnum):
    NONE = 0
    ACTION = 1  # "Applied.", "Will merge.", "Let's keep it": an outcome if it answers a message
    DECISION = 2  # "We decided to …": an outcome anywhere


class _Rule(NamedTuple):
    """A pattern for a text in lower case, and words of which it needs one: most sentences have none of them."""

    outcome: Outcome
    triggers: frozenset[str]
    pattern: re.Pattern[str]


def _rule(outcome: Outcome, triggers: str, pattern: str) -> _Rule:
    return _Rule(outcome, frozenset(triggers.split()), re.compile(pattern, re.VERBOSE))


_DONE_WORDS = (
    "applied merged queued pushed committed landed reverted dropped fixed resolved solved closed accepted "
    "approved rejected released deployed adopted squashed withdrawn"
)
_DONE = rf"(?:{_DONE_WORDS.replace(' ', '|')})"
_DO = r"""(?:
    apply|merge|queue|push|commit|land|revert|drop|close|release|deploy|adopt|go\ (?:ahead\ )?with|use|squash
    |postpone|cancel|skip|switch\ to|move\ to|stick\ (?:with|to)|pick\ (?:it|this|that|these|them)\ up
    |take(?!\ (?:a|another)\b)
    |keep(?!\ (?:an|my|in|you|posting|looking|working|.{1,12}\ in\ mind)\b)
    |leave(?!\ .{0,20}\bto\ you)
)"""
_ADVERBS = r"(?:\ (?:just|now|already|since|finally|also|then|therefore|all|both|indeed|simply|thus))*"

_RULES = (
    # English
    _rule(
        Outcome.DECISION,
        "decided agreed agree settled concluded voted resolved decision conclusion consensus verdict agreement "
        "outcome",
        rf"""
        \b(?:we|they|everybody|everyone|it\ (?:was|is|has\ been))(?:['’]ve|\ have|\ had|['’]re|\ are)?{_ADVERBS}
          \ (?:decided|agreed|settled\ on|concluded|voted|resolved\ to)\b
        | (?<!\bi)\ (?:has|have){_ADVERBS}\ (?:decided|agreed|voted|concluded)\b
        | \b(?:that|this|it)(?:['’]s|\ is){_ADVERBS}\ (?:decided|settled|agreed)\b
        | \b(?:decision|conclusion|consensus|verdict|outcome|agreement)\ (?:is|was|seems\ to\ be)\b
        | ^(?:decision|conclusion|outcome|decided|agreed)\b[^.:]{{0,30}}: | \bwe\ have\ a\ decision\b
        | \blet(?:['’]s|\ us)\ agree\b
        | \b(?:reached|have|got)\ (?:a\ |an\ )?(?:consensus|agreement)\b
        """,
    ),
    _rule(
        Outcome.ACTION,
        "decided opted chose went way",
        rf"""
        \bi(?:['’]ve|\ have)?{_ADVERBS}\ decided\b | \bwe(?:['’]ve|\ have)?{_ADVERBS}\ (?:opted|chose|went\ with)\b
        | \bis{_ADVERBS}\ the\ way\ (?:to\ go|forward)\b
        """,
    ),
    _rule(
        Outcome.ACTION,
        f"{_DONE_WORDS} addressed superseded trick works closing done",
        rf"""
        ^done[.,:;!] | ,\ (?:and\ )?(?:applied|merged|pushed|queued|committed)(?:[.,;!]|\ and|$) |
        ^{_DONE}(?:[.!;]|$|,\ (?:thanks|thank|with|and|as|except)
          |\ (?:it|this|that|these|them|both|all|the|your|to|into|in|on|as|and|with|by|for|here|now|locally)\b)
        # not "the patch I queued"
        | (?:^|[,;:(–—]\ |\b(?:and|but|so|as|then|because|since|that|think|now)\ )
          (?:i|we)(?:['’]ve|\ have)?{_ADVERBS}\ {_DONE}\b
        | \b(?:has|have)\ been{_ADVERBS}\ {_DONE}\b | \b(?:is|are)\ (?:now|already|finally){_ADVERBS}\ {_DONE}\b
        | \b(?:issue|bug|problem|ticket|thread|question|case|request|proposal|patch|series|change)
          \ is{_ADVERBS}\ {_DONE}\b
        | \b(?:fixed|solved|resolved|addressed|superseded)\ (?:in|by|with|since)
          \ (?:v?\d|version|release|commit|main|master|next|trunk|this|the|that|\#\d|[0-9a-f]{{7,}})
        | \b(?:that|this|it|which)\ (?:has\ )?(?:fixed|solved)\ (?:it|the\ (?:problem|issue|bug))\b
        | \bdid\ the\ trick\b
        | \bworks\ (?:fine\ )?now\b | \bproblem\ solved\b | ^closing\b | \bclosing\ (?:this|the|it|as)\b
        """,
    ),
    _rule(
        Outcome.ACTION,
        "will shall i'll we'll i’ll we’ll let's let’s let going",
        rf"""
        (?:^|\b(?:so|then|thus|therefore|and|but|ok|okay|right|agreed|yes)\ |[,;]\ )
          (?:(?:i|we)(?:['’]ll|\ will|\ shall)|will|let['’]s|let\ us){_ADVERBS}\ (?:not\ )?{_DO}\b
        | \blet['’]s\ \w.*\bthen\b | \bgoing\ (?:ahead\ |to\ go\ )?with\b
        """,
    ),
    # German
    _rule(
        Outcome.DECISION,
        """entschieden beschlossen geeinigt vereinbart verständigt abgemacht verabschiedet beschluss entscheidung
        einigten festgelegt""",
        r"""
        \b(?:haben|hat|habe|wurden?|ist|sind)\b(?:(?!\ nicht\b|\ kein).){0,80}
          \b(?:entschieden|beschlossen|geeinigt|vereinbart|verständigt|abgemacht|verabschiedet|festgelegt)\b
        | \b(?:entschieden|einigten)\ (?:wir\ )?uns\b | ^(?:beschluss|entscheidung|beschlossen|abgemacht)\s*[:.,;!]
        """,
    ),
    _rule(
        Outcome.ACTION,
        """genehmigt abgelehnt angenommen übernommen eingespielt behoben erledigt gelöst umgesetzt gemergt
        freigegeben zurückgestellt machen nehmen bleibt bleiben schließe fest""",
        r"""
        (?:\b(?:haben|hat|habe|wurden?|ist|sind)\b(?:(?!\ nicht\b|\ kein).){0,80}\b|^)
          (?:genehmigt|abgelehnt|angenommen|übernommen|eingespielt|behoben|erledigt|gelöst|umgesetzt|gemergt|freigegeben
          |zurückgestellt)\b
        | \b(?:so\ machen\ wir|machen\ wir(?:\ (?:es|das))?\ so|(?:dann|also)\ (?:nehmen|machen|bleiben)\ wir
          |wir\ nehmen|wir\ bleiben\ bei|bleibt\ es\ (?:also\ )?(?:bei|dabei)|ich\ schließe
          |steht\ (?:jetzt|nun|damit)\ fest)\b
        """,
    ),
    # French
    _rule(
        Outcome.DECISION,
        "décidé décidée décidés convenu tranché adopté adoptée décision conclusion retenu retenue retenons choisi",
        r"""
        \b(?:avons|on\ a|été|est|c['’]est|ont)(?:\ (?:donc|finalement|enfin|tous))*
          \ (?:décidée?s?|convenue?s?|tranchée?s?|adoptée?s?|retenue?s?|choisi)\b
        | ^(?:décision|conclusion|décidé)\s*[:,;] | \bnous\ retenons\b
        """,
    ),
    _rule(
        Outcome.ACTION,
        """appliqué appliquée fusionné fusionnée corrigé corrigée résolu résolue réglé réglée intégré intégrée
        validé validée approuvé approuvée accepté rejeté allons-y part partons garde gardons clos""",
        r"""
        (?:\b(?:avons|on\ a|j['’]ai|été|est|c['’]est|ont)(?:\ (?:donc|finalement|enfin|déjà|bien|maintenant))*\ |^)
          (?:appliquée?s?|fusionnée?s?|corrigée?s?|résolue?s?|réglée?s?|intégrée?s?|validée?s?|approuvée?s?|acceptée?s?
          |rejetée?s?)\b
        | \b(?:allons-y|on\ part\ sur|partons\ sur|on\ garde|nous\ gardons|je\ clos)\b
        """,
    ),
    # Spanish
    _rule(
        Outcome.DECISION,
        "decidido decidida acordado acordada decidimos acordamos quedamos decidió acordó aprobó decisión",
        r"""
        \b(?:hemos|ha|han|queda|quedó|está)(?:\ (?:finalmente|ya|todos|sido))*\ (?:decidid|acordad)[oa]s?\b
        | \b(?:decidimos|acordamos|quedamos\ en|se\ (?:aprobó|decidió|acordó))\b
        | ^(?:decisión|acordado|decidido)\s*[:,;]
        """,
    ),
    _rule(
        Outcome.ACTION,
        """aplicado aplicada fusionado fusionada corregido corregida resuelto resuelta aprobado aprobada rechazado
        rechazada cerrado cerrada solucionado solucionada integrado integrada vamos nos cierro""",
        r"""
        (?:\b(?:he|hemos|ha|han|queda|quedó|está)(?:\ (?:finalmente|ya|sido))*\ |^)
          (?:aplicad|fusionad|corregid|resuelt|aprobad|rechazad|cerrad|solucionad|integrad)[oa]s?\b
        | \b(?:vamos\ con|vamos\ a\ (?:usar|aplicar|seguir\ con|adoptar)|nos\ quedamos\ con)\b
        | \bcierro\ (?:el|la|est[ea])\b
        """,
    ),
    # Italian, Portuguese, Dutch
    _rule(
        Outcome.DECISION,
        "deciso concordato ficou decidido besloten afgesproken",
        r"""
        \b(?:abbiamo\ (?:deciso|concordato)|(?:si\ è|è\ stato)\ deciso|(?:ficou|foi)\ (?:decidido|acordado))\b
        | \b(?:hebben|is|zijn)\b(?:(?!\ niet\b).){0,60}\b(?:besloten|afgesproken)\b
        """,
    ),
    _rule(
        Outcome.ACTION,
        "applicato corretto risolto andiamo aplicado corrigido resolvido vamos toegepast opgelost laten",
        r"""
        \b(?:(?:ho|abbiamo|è\ stato)\ (?:applicato|corretto|risolto)|andiamo\ con)\b
        | \b(?:foi\ (?:aplicado|corrigido|resolvido)|vamos\ com)\b
        | \b(?:heb|hebben|is|zijn)\b(?:(?!\ niet\b).){0,60}\b(?:toegepast|opgelost)\b
        | \blaten\ we\b.{0,60}\b(?:nemen|doen|gebruiken)\b
        """,
    ),
)
_PUNCTUATION = str.maketrans(dict.fromkeys('.,;:!?()[]"“”«»…', " "))
_TRIGGERS = frozenset[str]().union(*(rule.triggers for rule in _RULES))

# Chinese, Japanese and Korean: no spaces, or endings, hide the words.
_WIDE_DECISION = re.compile(
    r"""(?x)
    決定(?:しま|です|とし|とな|いた|致し|事項)|決め(?:ました|ます)|決まりました|合意(?:しま|に)|ことに(?:しま|なりま|決)
    | (?:决定|商定|议定)(?!性|于|因素)|我們決定|達成一致|达成了?一致|一致(?:同意|通过|通過)
    | 결정(?:했|하였|되|됐)|합의(?:했|하였|되)|하기로\ 했
    """
)
_WIDE_ACTION = re.compile(
    r"""(?x)
    (?:マージ|適用|修正|反映|対応|解決|承認|却下|クローズ|採用|リリース|導入)
      (?:を?しま(?:した|す)|(?:いた|致)しま|済み|されました)
    | で(?:進め|行き|いき)(?:ます|ましょう)|にしましょう
    | 已经?(?:合并|合併|修复|修復|修正|应用|套用|解决|解決|提交|关闭|關閉|采纳|採納|上线|批准)
    | 就(?:这么|这样|這樣|這麼)(?:定|办|辦)
    | 那就(?:采用|採用|用|按|这样|先)|(?:我们|我們)?(?:采用|採用)了?
    | (?:병합|적용|수정|해결|반영)(?:했|하였|되었|됐)습니다
    """
)
# Before what looks like an outcome: it is none yet.
_NOT_YET = re.compile(
    r"""(?x)
    (?:\b(?:not|never|hardly|yet\ to|nicht|kein|keine|nie|pas|jamais|no|nunca|aún|todavía|non|não|niet)|n['’]t)
      (?:\ (?:yet|been|be|have|quite|really|encore|été))*\ ?$
    | \b(?:if|once|when|whenever|unless|until|till|after|before|whether|assuming|should|could|would|might|may
      |must|can|why|how|who|what|whatever|which|where|wenn|falls|sobald|bevor|bis|ob|si|quand|lorsque|cuando|se|quando
      |als|zodra)\b[^,;:]{0,60}$
    | (?:没有?|未|不|如果|若|假如)[^，。]{0,4}$
    """
)
_OPEN = re.compile(r"[?？]\W*$|[か吗嗎呢][。.]?$|ません(?:でした)?[。.]?$")
_WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")


def find_outcome(sentence: str) -> Outcome:
    """Return whether a sentence says that something is decided, or done about it, such as applied or closed."""
    lowered = sentence.lower()
    found = _TRIGGERS.intersection(lowered.translate(_PUNCTUATION).split())
    if found:
        line = " ".join(lowered.split())
        for rule in _RULES:
            if not rule.triggers.isdisjoint(found) and (match := rule.pattern.search(line)) is not None:
                return rule.outcome if _is_settled(line, match.start()) else Outcome.NONE
    if not sentence.isascii() and _WIDE.search(sentence) is not None:
        line = "".join(lowered.split("\n"))
        for outcome, pattern in ((Outcome.DECISION, _WIDE_DECISION), (Outcome.ACTION, _WIDE_ACTION)):
            if (match := pattern.search(line)) is not None:
                return outcome if _is_settled(line, match.start()) else Outcome.NONE
    return Outcome.NONE


def _is_settled(line: str, place: int) -> bool:
    return _OPEN.search(line) is None and _NOT_YET.search(line[:place]) is None
