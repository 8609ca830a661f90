"""The letters of the mail room: written here, from a few phrases in five languages."""

from __future__ import annotations

from random import Random

GREETINGS = {
    "French": "Bonjour",
    "German": "Guten Tag",
    "Italian": "Buongiorno",
    "Spanish": "Buenos días",
    "Dutch": "Goedendag",
}

PHRASES = {
    "French": {
        "Bonjour": "Good day",
        "le colis est arrivé hier": "the parcel arrived yesterday",
        "la facture est payée": "the bill is paid",
        "merci pour les pommes": "thank you for the apples",
        "le train avait du retard": "the train was late",
        "à bientôt": "see you soon",
    },
    "German": {
        "Guten Tag": "Good day",
        "die Uhr geht wieder": "the clock works again",
        "der Garten steht in Blüte": "the garden is in bloom",
        "das Dach ist dicht": "the roof is tight",
        "wir kommen am Sonntag": "we come on Sunday",
        "bis bald": "see you soon",
    },
    "Italian": {
        "Buongiorno": "Good day",
        "il pane era ottimo": "the bread was excellent",
        "la nonna sta bene": "grandmother is well",
        "le chiavi sono sul tavolo": "the keys are on the table",
        "domani piove": "it will rain tomorrow",
        "a presto": "see you soon",
    },
    "Spanish": {
        "Buenos días": "Good day",
        "el barco sale a las ocho": "the ship leaves at eight",
        "la carta era para Ana": "the letter was for Ana",
        "el gato duerme": "the cat is asleep",
        "faltan dos sillas": "two chairs are missing",
        "hasta pronto": "see you soon",
    },
    "Dutch": {
        "Goedendag": "Good day",
        "de fiets is gemaakt": "the bicycle is mended",
        "het boek ligt klaar": "the book is ready",
        "de kaas is op": "the cheese is finished",
        "morgen is het feest": "tomorrow there is a party",
        "tot gauw": "see you soon",
    },
}


def write_letter(random: Random) -> str:
    """Write one letter: a greeting, two sentences, a farewell."""
    language = random.choice(list(PHRASES))
    greeting, *sentences, farewell = PHRASES[language]
    return ". ".join((greeting, *random.sample(sentences, 2), farewell))


def language_of(text: str) -> str:
    """Tell a letter's language by its greeting."""
    for language, greeting in GREETINGS.items():
        if text.startswith(greeting):
            return language
    raise ValueError(f"no known greeting: {text[:20]!r}")


def translate(language: str, text: str) -> str:
    """Translate a letter, phrase by phrase."""
    return ". ".join(PHRASES[language][phrase] for phrase in text.split(". "))
