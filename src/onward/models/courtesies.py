"""Greetings, thanks, sign-offs and requests for an answer: parts of a mail that are not about its subject."""

from __future__ import annotations

import re

MAX_COURTESY_LINE = 90  # longer lines are prose, whatever they begin with

# All patterns are verbose, and match a text in lower case: that is faster than to ignore the case.
_GREETING = r"""(?:
    hi|hello|hey|hiya|dear|good\ (?:morning|day|afternoon|evening)|greetings
    |hallo|hallöchen|moin|servus|grüezi|grüß\ gott|guten\ (?:tag|morgen|abend)|sehr\ geehrte[rs]?
    |liebe[rs]?|werte[rs]?
    |bonjour|bonsoir|salut|coucou|ch(?:er|ère)s?|madame|monsieur|mesdames
    |hola|buen(?:os|as)\ (?:días|tardes|noches)|buen\ día|estimad[oa]s?|querid[oa]s?
    |ciao|buongiorno|buonasera|salve|gentil[ei]|car[oaie]s?|egregi[oa]|spettabile
    |ol[áa]|bom\ dia|boa\ (?:tarde|noite)|prezad[oa]s?|hoi|goede(?:morgen|middag|ndag|navond)|beste|geachte
    |hej|hejsan|hei|god\ (?:morgen|morgon|dag)|kære|kjære|bästa|cześć|dzień\ dobry|witam|szanowni?
    |dobrý\ den|ahoj|привет|здравствуйте?|добрый\ (?:день|вечер)|уважаем\w+|всем\ привет
)"""
_WIDE_GREETING = r"""(?:
    こんにち[はわ]|こんばんは|おはよう(?:ございます)?|はじめまして|初めまして|各位|(?:皆|みな)(?:様|さま|さん)
    |(?:いつも)?(?:大変)?お世話になって?(?:おり)?ま(?:す|した)|お疲れ(?:様|さま)(?:です|でした)
    |(?:你|您|大家|各位)(?:们|們)?(?:好|早)|尊敬的|亲爱的|親愛的|各位同[事学學]|안녕하(?:세요|십니까)
)"""
_THANKS = r"""(?:
    thanks|thank\ you|thankyou|thx|ty|many\ thanks|much\ appreciated
    |danke(?:schön)?|(?:vielen|besten|herzlichen|lieben)\ dank|merci|(?:muchas\ |mil\ )?gracias|grazie
    |(?:muito\ )?obrigad[oa]|(?:alvast\ |hartelijk\ )?bedankt|dank\ (?:je|u)|tack|takk|tak|mange\ takk?|kiitos
    |dzięk(?:i|uję|ujemy)|díky|děkuj[iu]|спасибо|благодарю
)"""
_WIDE_THANKS = r"""(?:
    \w{0,12}ありがとうござい(?:ます|ました)|ありがとう|感謝|谢谢|多谢|感谢|謝謝|多謝|감사합니다|고맙습니다
)"""
_SIGN_OFF = r"""(?:
    (?:(?:best|kind|kindest|warm|warmest|with|my|many)\ )*(?:regards|wishes)|rgds|cheers|respectfully
    |all\ the\ best|best
    |(?:yours\ )?(?:sincerely|faithfully)|yours(?:\ truly)?|take\ care|bye|hth|br|ttyl|happy\ hacking
    |(?:(?:mit|den|viele|besten?|lieben?|herzlichen?|freundlichen?|schönen?)\ )*(?:grü(?:ß|ss)en?|gru(?:ß|ss))
    |mfg|vg|lg|hochachtungsvoll|bis\ (?:bald|dann|morgen)
    |(?:(?:bien|très)\ )?(?:cordialement|amicalement|sincèrement|respectueusement)
    |amitiés|cdlt|bien\ à\ (?:vous|toi)
    |(?:(?:sincères|meilleures|cordiales)\ )*salutations|à\ (?:bientôt|plus)|bonne\ (?:journée|soirée)
    |veuillez\ agréer
    |(?:(?:un|muchos|cordial|cordiales|afectuoso)\ )*saludos?|atentamente|(?:un\ )?abrazos?|hasta\ (?:luego|pronto)
    |(?:(?:un|cordiali|distinti|cari)\ )*salut[io]|cordialmente|a\ presto
    |(?:(?:com|os|melhores)\ )*cumprimentos|atenciosamente|abraços?|até\ (?:logo|breve)
    |(?:(?:met|vriendelijke|hartelijke)\ )*groet(?:en|jes)?|mvg|hoogachtend
    |(?:(?:med|vänliga?|venlig|vennlig|bästa)\ )*(?:hilsen|hälsning(?:ar)?)|mvh
    |(?:z\ )?pozdrow\w+|pozdrawiam|z\ poważaniem|с\ уважением|всего\ доброго
)"""
_WIDE_SIGN_OFF = r"""(?:
    (?:以上、?)?(?:どうぞ)?(?:よろしく|宜しく)(?:お願い\S{0,14})?|以上(?:です|、)?|敬具|草々
    |此致|敬[礼禮]|祝好|祝\S{0,6}(?:愉快|顺利|順利)|[顺順][颂祝頌]\S{0,4}|\S{0,8}[谨敬謹]上|\S{0,8}드림
)"""
_REST = r"[\s,.!:;~–—。、，！：-]*$"

GREETING = "greeting"
SIGN_OFF = "sign_off"
THANKS = "thanks"
_LINE = re.compile(
    rf"""(?x)[ \t\u3000]*(?:
    # a few words, or more that end in a comma: "Dear Prof. Smith, dear colleagues,"
    (?P<{GREETING}>
      {_GREETING}(?!\w)(?:(?:\s+[^\s.?!,;:]+){{0,3}}{_REST}|(?:[^.?!]|\b\w{{1,4}}\.){{0,60}}[,!:]$)
      | (?:\S{{1,6}}[、，])?{_WIDE_GREETING}[^。、，？?]{{0,10}}{_REST}
      # a Japanese or Korean name with its title
      | \S{{1,20}}(?:様|さま|さん|先生|殿|御中|님)[、，,:：]?$)
    | (?P<{SIGN_OFF}>{_SIGN_OFF}(?!\w)(?:[^.?!]|\b\w\.){{0,24}}{_REST}|{_WIDE_SIGN_OFF}{_REST})
    | (?P<{THANKS}>{_THANKS}(?!\w)[^.?!]{{0,30}}{_REST}|{_WIDE_THANKS}[^。？?]{{0,10}}{_REST})
    )"""
)
# "Hi Bob, " and "Thanks, " before a sentence; "Thanks for the report, " only before who does what.
_OPENING = re.compile(
    rf"""(?x)
    {_GREETING}(?!\w)(?:\s+[^\s.?!,;:]+){{0,4}}\s*[,!:–—-]\s+(?=\S)
    | {_WIDE_GREETING}[、，！!。\s]+(?=\S)
    | {_THANKS}(?:\s+(?!for\b|für\b|pour\b|por\b|per\b)[^\s.?!,;:]+){{0,2}}\s*[,!–—-]\s+(?=\S)
    | {_THANKS}\s[^.?!]{{0,60}},\s+
      (?=(?:i|we|will|let's|applied|merged|queued|pushed|fixed|done|ich|wir|habe|je|nous|j'ai)\b)
    """
)
_COURTESY = re.compile(
    rf"""(?x)
    (?:{_THANKS}|hi|hello|hey|dear|cheers|enjoy,|sorry|hope\ (?:this|that|it)|i\ hope\ (?:this|that|it|you)
      |please\ (?:answer|find|review\ the\ rest|see|let\ me\ know)|let\ me\ know
      |any\ (?:thoughts|comments|feedback)
      |comments?\ (?:are\ )?welcome|looking\ forward|yes,?\ please|see\ (?:above|below|also|https?:)
      |\(?cc'?(?:ing|ed)
      |feel\ free|have\ a\ (?:nice|good|great)|how\ are\ you|(?:my\ )?apologies
      |(?:ich\ )?hoffe|bei\ (?:rück)?fragen|über\ (?:eine\ )?(?:rückmeldung|antwort)|(?:ich\ )?freue\ mich
      |meldet?\ euch
      |gebt?\ (?:mir\ )?bescheid|lasst?\ (?:es\ )?mich\ wissen|schönes\ wochenende|entschuldig(?:ung|t|en)?
      |n['’]hésitez|j['’]espère|dans\ l['’]attente|qu['’]en\ pensez|veuillez\ (?:agréer|trouver)|je\ vous\ prie
      |désolée?
      |no\ dud[ea]s?|espero\ que|qued(?:o|amos)\ a|¿?qué\ (?:os|les|te)\ parece|perdón|un\ (?:cordial\ )?saludo
      |non\ esitate?|spero\ che|resto\ in\ attesa|fico\ (?:à|no)|laat\ (?:het\ )?(?:me|mij|ons)\ weten|ik\ hoop
    )\b
    |sent\ from\ (?:my|the|a)\b.{{0,40}}$
    |this\ (?:e-?mail|message)\ (?:is|was|and|may)\b|diese\ (?:e-?mail|nachricht)\ (?:ist|kann|enthält)\b
    # the questions of a form, and the contents of a series
    |what\ (?:did\ you\ (?:do|expect)|happened\ instead)|what['’]s\ different|anything\ else\ you\ want
    |you\ can\ delete\ any\ lines
    |.{{1,40}}\ \(\d+\):\s
    |(?:{_WIDE_GREETING}|{_WIDE_THANKS})\S{{0,6}}{_REST}|.{{0,30}}ありがとうございま(?:す|した){_REST}
    |.{{0,16}}(?:よろしく|宜しく)お願い.{{0,14}}$
    |[如若]?有(?:任何)?(?:问题|疑问|問題|疑問)|期待.{{0,8}}回[复覆]|希望.{{0,8}}(?:帮助|幫助|有用)
    # "This is Tanaka of ...": how a Japanese mail introduces its author
    |[^はがをにで、。]{{1,16}}(?:です|と申します|でございます){_REST}
    """
)


def courtesy_line(line: str) -> str:
    """Return what a line in lower case is: `GREETING`, `SIGN_OFF`, `THANKS` or ""."""
    found = _LINE.match(line)
    return (found.lastgroup or "") if found is not None else ""


def opening_end(text: str, start: int, end: int) -> int:
    """Return where `text[start:end]` goes on after a greeting or thanks; `start` if it does not begin with one."""
    head = text[start : min(end, start + MAX_COURTESY_LINE)]
    lowered = head.lower()
    found = _OPENING.match(lowered if len(lowered) == len(head) else head)
    return start + found.end() if found is not None else start


def is_courtesy(sentence: str) -> bool:
    """Return whether a sentence only greets, thanks, takes leave or asks for an answer."""
    return _COURTESY.match(sentence.lower()) is not None
