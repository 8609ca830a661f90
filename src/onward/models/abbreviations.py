"""Decide whether a full stop ends a sentence, or belongs to an abbreviation, an ordinal number or an ellipsis."""

from __future__ import annotations

import re

MAX_ABBREVIATION = 24  # characters around a full stop that decide

# A full stop after these belongs to the word.
_ABBREVIATIONS = frozenset(
    """e.g i.e eg ie cf vs viz mr mrs messrs dr drs prof hon capt sgt approx incl excl resp aka ca z.b z.t d.h
    i.d.r i.a u.u m.e bspw bzw ggf evtl evt vgl sog inkl exkl zzgl abzgl abb nr dipl mio mrd allg ehem
    einschl insb o.g s.o s.u u.a mme mlle mgr p.ex c.-à-d càd chap réf tél éd sr sra srta dra dña ud uds vd
    vds p.ej ej núm pág págs aprox avda dott avv egr spett p.es exmo exma bijv bv d.w.z m.b.t i.p.v t.o.v
    o.a dhr mevr blz t.ex bl.a dvs jf fx f.eks np tzn tj m.in т.е стр""".split()  # noqa: SIM905
)
# Abbreviations before a number only: words or names otherwise.
_BEFORE_NUMBER = frozenset(
    """no nos n p pp s ss f ff ch sec sect op kap abs art tab pt kl jan feb mar apr jun jul aug sep sept oct
    okt nov dec dez janv févr avr juil déc ene abr ago set dic mon tue wed thu fri sat sun mo di mi do
    sa so page seite version v vers""".split()  # noqa: SIM905
)
# Abbreviations that often end a sentence, or are words as well: it ends if sentences begin with the next word.
_MAYBE_LAST = frozenset(
    """etc usw usf uvm al inc ltd co corp jr gmbh ecc enz osv itd itp cie bros ext ex lt mt ft fr str ing mag
    tel gem bes zw sig arch gent av т.д г ул им ul ms ref refs rep gen col vol vols dept st hr m mm rev env
    eq eqs sen gov pag fig figs""".split()  # noqa: SIM905
)
_FIRST_WORDS = frozenset(
    """the this that these those there then they we you he she it i in on at if as so but and or for a an my
    our your his her its their when while what why how where who which since after before however also
    not please with from to by let all some most one both each another maybe perhaps yes now here can
    could should would is are do does did der die das den dem des ein eine einen einem einer wir ich sie
    er es ihr dies diese dieser dieses im am auf bei mit nach von zu zur zum für wenn weil da aber und
    oder auch nicht man hier dort dann danach bitte wie was wer wo warum alle le la les l un une des
    nous vous il elle ils elles je j on ce cette ces c dans pour avec sur par si mais et ou donc en à au
    aux que qui quand comme el los las lo una unos nosotros yo él ella ellos esto este esta se sin para
    con por pero y o cuando como gli uno questo questa noi non ma per os um uma isso esse essa nós het
    een de wij ik deze dit dat""".split()  # noqa: SIM905
)
# German ordinals: "am 3. Mai", "der 2. Versuch".
_BEFORE_ORDINAL = frozenset(
    """am im vom zum zur beim ab bis seit der die das den dem des ein eine einen einem einer eines jeder jeden
    jedem jede und oder mein meine sein seine ihr ihre unser unsere dieser diesem diesen diese kein
    keine""".split()  # noqa: SIM905
)
_MONTHS = frozenset(
    """januar jänner februar märz april mai juni juli august september oktober november dezember""".split()  # noqa: SIM905
)
_DOTTED = re.compile(r"[^\W\d_](?:\.-?[^\W\d_]{1,4})+$")  # U.S, p.m, i.d.R
_NEXT_WORD = re.compile(r"[^\w`]*([^\W\d_]+|\d?)")


def ends_sentence(before: str, mark: str, after: str) -> bool:
    """Return whether a full stop or an ellipsis between two texts ends a sentence."""
    found = _NEXT_WORD.match(after)
    next_word = found[1] if found is not None else ""
    if next_word[:1].islower():
        return False
    begins = next_word.lower() in _FIRST_WORDS
    if mark.startswith(("..", "…")):
        return begins
    words = before.split()
    word = words[-1].lstrip("([{\"'„“«<*_").lower() if words else ""
    if word in _ABBREVIATIONS or (word in _BEFORE_NUMBER and next_word.isdigit()):
        return False
    if word.isdigit() and len(word) < 3:
        ordinal = len(words) == 1 or words[-2].lower() in _BEFORE_ORDINAL or next_word.lower() in _MONTHS
        return begins or not ordinal
    # An initial, or letters with dots.
    single = len(word) == 1 and word.isalpha() and word != "i"
    return begins if single or word in _MAYBE_LAST or _DOTTED.match(word) else True
